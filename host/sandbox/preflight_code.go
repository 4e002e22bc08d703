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

// constant reads a constant expression and checks that it makes one value of a type.
func (p *parser) constant(want byte) {
	depth := 0
	for p.ok() {
		var made byte
		switch op := p.byte(); op {
		case 0x0b: // end
			if p.ok() && (depth != 1 || p.stack[0] != want) {
				p.failf(Malformed, "a constant expression does not make one value of type 0x%x", want)
			}
			return
		case 0x23: // global.get
			p.failf(Unsupported, "a constant expression reads a global; that is only possible for imported ones, and no global can be imported")
		case 0xd2: // ref.func
			p.functionIndex()
			made = typeFuncRef
		case 0x41: // i32.const
			p.signed(32)
			made = typeI32
		case 0x42: // i64.const
			p.signed(64)
			made = typeI64
		case 0x43: // f32.const
			p.bytes(4)
			made = typeF32
		case 0x44: // f64.const
			p.bytes(8)
			made = typeF64
		case 0xd0: // ref.null
			made = p.nullType()
		case 0x6a, 0x6b, 0x6c: // extended constants
			made = typeI32
			p.operands(&depth, made)
		case 0x7c, 0x7d, 0x7e:
			made = typeI64
			p.operands(&depth, made)
		case 0xfd:
			if sub := p.byte(); p.ok() && sub != 12 {
				p.failf(Malformed, "a constant expression holds the vector instruction %d", sub)
			}
			p.bytes(16)
			made = typeV128
		default:
			p.failf(Malformed, "a constant expression holds instruction 0x%x", op)
		}
		if depth >= maxConstantDepth {
			p.exceed("a constant expression has too many operands", int64(depth+1), maxConstantDepth)
			return
		}
		p.stack[depth] = made
		depth++
	}
}

// skipConstant steps over a constant expression of a module that has passed.
func (p *parser) skipConstant() {
	for p.ok() {
		switch p.byte() {
		case 0x0b: // end
			return
		case 0x41, 0x42, 0xd2: // i32.const, i64.const, ref.func
			p.leb(64)
		case 0x43: // f32.const
			p.bytes(4)
		case 0x44: // f64.const
			p.bytes(8)
		case 0xd0: // ref.null
			p.byte()
		case 0xfd: // v128.const
			p.bytes(17)
		}
	}
}

// operands takes the two operands of a constant's addition, subtraction or multiplication.
func (p *parser) operands(depth *int, typ byte) {
	if *depth < 2 || p.stack[*depth-1] != typ || p.stack[*depth-2] != typ {
		p.failf(Malformed, "a constant expression lacks operands of type 0x%x", typ)
		return
	}
	*depth -= 2
}

// nullType reads the type of a null.
func (p *parser) nullType() byte {
	typ := p.byte()
	if p.ok() && typ != typeFuncRef && typ != typeExternRef {
		p.failf(Unsupported, "a null of type 0x%x is not supported", typ)
	}
	return typ
}

// instructions walks the code of one function up to the end of its body. Types are
// the compiler's to check; this finds the end, the nesting and the branch tables. It
// must find each instruction where the compiler finds it, or blocks could be hidden in
// what looks like a number: an encoding that two readers could take for different
// things is refused.
func (p *parser) instructions() {
	depth := 1
	for p.ok() && depth > 0 {
		p.instruction = p.pos
		switch op := p.byte(); op {
		case 0x02, 0x03, 0x04: // block, loop, if
			p.blockType()
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

// blockType reads the type of a block: nothing, a value type, or the number of a type.
func (p *parser) blockType() {
	typ := p.signed(33)
	switch {
	case typ >= 0:
		if typ >= int64(len(p.types)) {
			p.failf(Malformed, "type %d does not exist", typ)
		}
	case typ == -64:
	default:
		switch 0x80 + typ {
		case typeI32, typeI64, typeF32, typeF64, typeV128, typeFuncRef, typeExternRef:
		default:
			p.failf(Unsupported, "a block of type %d is not supported", typ)
		}
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
		if n := p.byte(); p.ok() && n != 1 {
			p.failf(Malformed, "a select has %d types", n)
		}
		p.valueType()
	case op >= 0x28 && op <= 0x3e: // loads and stores
		p.memoryArgument()
	case op == 0x3f, op == 0x40: // memory.size, memory.grow
		if index := p.byte(); index != 0 {
			p.failf(Malformed, "memory 0x%x does not exist", index)
		}
	case op == 0xd0: // ref.null
		p.nullType()
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
		p.vectorImmediates(p.vectorCode())
	default:
		p.failf(Unsupported, "instruction 0x%x is not supported", op)
	}
}

// vectorCode reads the number of a vector instruction. The compiler reads one byte, and
// then takes the 1 that ends the numbers from 128 on for an instruction that does
// nothing, so that only the shortest encoding means the same to both.
func (p *parser) vectorCode() uint32 {
	code := uint32(p.byte())
	if code < 0x80 {
		return code
	}
	switch high := p.byte(); {
	case high == 1:
	case high == 0 || high >= 0x80:
		p.failf(Malformed, "the number of a vector instruction is longer than it need be")
	default:
		p.failf(Unsupported, "instruction 0xfd %d is not supported", code&0x7f|uint32(high)<<7)
	}
	return code
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
	case sub == 15: // table.grow
		p.noteGrowth(p.u32())
	case sub == 9, sub == 11, sub == 13, sub == 16, sub == 17:
		p.u32()
	case sub == 8, sub == 10, sub == 12, sub == 14:
		p.u32()
		p.u32()
	default:
		p.failf(Unsupported, "instruction 0xfc %d is not supported", sub)
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
	}
}
