package sandbox

// This file decides whether the state of an instance can be put back after a call. A
// snapshot holds the linear memory and the numbers in mutable globals; code that can
// change anything else makes its module one whose instances serve a single call.

// keepsState records the first reason for that.
func (p *parser) keepsState(reason string) {
	if p.seen.FreshReason == "" {
		p.seen.FreshReason = reason
	}
}

// noteGlobal looks at the type of a global.
func (p *parser) noteGlobal(valueType, mutability byte) {
	if mutability == 0 {
		return
	}
	switch valueType {
	case typeI32, typeI64, typeF32, typeF64:
	default:
		p.keepsState("it has a mutable global that is not a number")
	}
}

// noteInstruction looks at an instruction without prefix.
func (p *parser) noteInstruction(op byte) {
	if op == 0x26 {
		p.keepsState("it uses table.set")
	}
}

// noteBulk looks at an instruction with the prefix 0xfc.
func (p *parser) noteBulk(sub uint32) {
	switch sub {
	case 9:
		p.keepsState("it uses data.drop")
	case 12:
		p.keepsState("it uses table.init")
	case 13:
		p.keepsState("it uses elem.drop")
	case 14:
		p.keepsState("it uses table.copy")
	case 15:
		p.keepsState("it uses table.grow")
	case 17:
		p.keepsState("it uses table.fill")
	}
}
