package sandbox

// Caps of the code itself.
const (
	// maxNesting caps how deep blocks nest: the compiler's time is quadratic in it
	// (20,000 take 4.5 s). A Go guest with encoding/json nests 550 deep.
	maxNesting = 10_000
	// maxBranches caps one br_table; each entry costs the compiler 2.3 KB. The number
	// is the one of the JavaScript API.
	maxBranches = 65_520
)

// constant reads a constant expression.
func (p *parser) constant() {
	for p.ok() {
		switch op := p.byte(); op {
		case 0x0b: // end
			return
		case 0x23, 0xd2: // global.get, ref.func
			p.u32()
		case 0x41: // i32.const
			p.leb(32)
		case 0x42: // i64.const
			p.leb(64)
		case 0x43: // f32.const
			p.bytes(4)
		case 0x44: // f64.const
			p.bytes(8)
		case 0xd0: // ref.null
			p.byte()
		case 0x6a, 0x6b, 0x6c, 0x7c, 0x7d, 0x7e: // extended constants
		case 0xfd:
			if sub := p.u32(); p.ok() && sub != 12 {
				p.failf(Malformed, "a constant expression holds the vector instruction %d", sub)
			}
			p.bytes(16)
		default:
			if p.ok() {
				p.failf(Malformed, "a constant expression holds instruction 0x%x", op)
			}
		}
	}
}

// instructions walks the code of one function up to the end of its body. Types are
// the compiler's to check; this finds the end, the nesting and the branch tables.
func (p *parser) instructions() {
	depth := 1
	for p.ok() && depth > 0 {
		switch op := p.byte(); op {
		case 0x02, 0x03, 0x04: // block, loop, if
			p.leb(33)
			depth++
			if depth > maxNesting {
				p.exceed("blocks nest too deep", int64(depth), maxNesting)
			}
		case 0x0b: // end
			depth--
		case 0x0e: // br_table
			for n := p.count("branches in one table", maxBranches) + 1; n > 0 && p.ok(); n-- {
				p.u32()
			}
		default:
			p.noteInstruction(op)
			p.immediates(op)
		}
	}
	if p.ok() && p.left() != 0 {
		p.failf(Malformed, "%d bytes follow the end of a function", p.left())
	}
}

// immediates skips what follows an instruction without nesting.
func (p *parser) immediates(op byte) {
	switch {
	case op <= 0x01, op == 0x05, op == 0x0f, op == 0x1a, op == 0x1b, op == 0xd1:
	case op >= 0x45 && op <= 0xc4: // comparisons, arithmetic, conversions
	case op == 0x0c, op == 0x0d, op == 0x10, op == 0x12, op >= 0x20 && op <= 0x26, op == 0xd2:
		p.u32()
	case op == 0x11, op == 0x13: // call_indirect, return_call_indirect
		p.u32()
		p.u32()
	case op == 0x1c: // select with types
		p.bytes(p.count("types of a select", maxParameters))
	case op >= 0x28 && op <= 0x3e: // loads and stores
		p.memoryArgument()
	case op == 0x3f, op == 0x40, op == 0xd0: // memory.size, memory.grow, ref.null
		p.byte()
	case op == 0x41:
		p.leb(32)
	case op == 0x42:
		p.leb(64)
	case op == 0x43:
		p.bytes(4)
	case op == 0x44:
		p.bytes(8)
	case op == 0xfc:
		p.bulkImmediates(p.u32())
	case op == 0xfd:
		p.vectorImmediates(p.u32())
	default:
		p.failf(Malformed, "instruction 0x%x is not supported", op)
	}
}

// memoryArgument skips the alignment and the offset of a load or store.
func (p *parser) memoryArgument() {
	p.u32()
	p.u32()
}

// bulkImmediates skips what follows a saturating conversion or a bulk instruction.
func (p *parser) bulkImmediates(sub uint32) {
	p.noteBulk(sub)
	switch {
	case sub <= 7:
	case sub == 9, sub == 11, sub == 13, sub >= 15 && sub <= 17:
		p.u32()
	case sub == 8, sub == 10, sub == 12, sub == 14:
		p.u32()
		p.u32()
	default:
		p.failf(Malformed, "instruction 0xfc %d is not supported", sub)
	}
}

// vectorImmediates skips what follows a vector instruction.
func (p *parser) vectorImmediates(sub uint32) {
	switch {
	case sub <= 11, sub == 92, sub == 93:
		p.memoryArgument()
	case sub == 12, sub == 13:
		p.bytes(16)
	case sub >= 21 && sub <= 34:
		p.byte()
	case sub >= 84 && sub <= 91:
		p.memoryArgument()
		p.byte()
	case sub <= 0xff:
	default:
		p.failf(Malformed, "instruction 0xfd %d is not supported", sub)
	}
}
