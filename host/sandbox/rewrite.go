package sandbox

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// rewriting is what workers that serve load in the place of a module.
type rewriting struct {
	// skeleton is the rewritten module without its code.
	skeleton []byte
	// globals are the names under which the mutable globals are exported. Where a module
	// grows tables the last two are those that boundTables adds.
	globals []string
	// start is the export that is to be run in the place of the start function, once the
	// limit of the tables is set, or empty.
	start string
}

// source is a module that has passed preflight.
type source struct {
	wasm []byte
	// growsTables says that it has instructions that do.
	growsTables bool
}

// rewrite rewrites a module for workers that serve. What it does is the same whether or
// not the state of the module can be put back, so that its native code is the same in
// both cases.
func (s source) rewrite() (r rewriting, err error) {
	wasm := s.wasm
	if s.growsTables {
		var bounds *tableBounds
		if wasm, bounds, err = boundTables(wasm); err != nil {
			return r, err
		}
		r.start = bounds.start
	}
	// The code goes first, because nothing of what follows looks at it.
	bare, err := skeletonOf(wasm)
	if err != nil {
		return r, err
	}
	if bare, r.globals, err = exportGlobals(bare); err != nil {
		return r, err
	}
	r.skeleton = joinSegments(bare)
	return r, nil
}

// rewriteWhole rewrites a module for the worker that compiles it. The skeleton of what it
// returns is that of rewrite.
func (s source) rewriteWhole(where placement) ([]byte, error) {
	wasm, err := s.wasm, error(nil)
	if s.growsTables {
		if wasm, _, err = boundTables(wasm); err != nil {
			return nil, err
		}
	}
	if where == inProcess {
		if wasm, err = interruptible(wasm); err != nil {
			return nil, err
		}
	}
	if wasm, _, err = exportGlobals(wasm); err != nil {
		return nil, err
	}
	return joinSegments(wasm), nil
}

// globalPrefix begins the names under which mutable globals are exported. More
// underscores follow where a module has such names itself.
const globalPrefix = "caisson_global_"

// exportGlobals returns the module with its mutable globals exported as well, so that
// they can be read and set from outside, and the names of those exports. Everything else
// stays as it is, byte for byte: no index moves, because only exports are added. The
// module has passed preflight, so all of its globals are its own.
//
// It reads the sections in front of the code, allocates the result once, and follows
// no count further than there are bytes. A module that it cannot read is an error.
func exportGlobals(wasm []byte) ([]byte, []string, error) {
	c := &cursor{data: wasm, pos: min(headerBytes, len(wasm)), end: len(wasm)}
	var mutable []uint32
	for c.ok() && c.left() > 0 {
		start := c.pos
		id := c.byte()
		content := c.vector()
		if !c.ok() {
			break
		}
		switch id {
		case sectionGlobal:
			mutable = mutableGlobals(content)
		case sectionExport:
			if len(mutable) == 0 {
				return wasm, nil, nil
			}
			section, names, err := addExports(content, mutable)
			if err != nil {
				return nil, nil, err
			}
			out := make([]byte, 0, len(wasm)-(c.pos-start)+len(section))
			out = append(out, wasm[:start]...)
			out = append(out, section...)
			return append(out, wasm[c.pos:]...), names, nil
		}
	}
	if !c.ok() {
		return nil, nil, fmt.Errorf("find the globals: %w", c.err)
	}
	return nil, nil, fmt.Errorf("find the globals: the module exports nothing")
}

// mutableGlobals lists the mutable ones of a global section. What cannot be read is not
// listed: the compiler will refuse it.
func mutableGlobals(content []byte) []uint32 {
	p := parser{cursor: cursor{data: content, end: len(content)}}
	var mutable []uint32
	n := p.count("globals", maxGlobals+addedGlobals)
	for i := range n {
		p.byte()
		if p.byte() == 1 {
			mutable = append(mutable, uint32(i))
		}
		p.skipConstant()
		if !p.ok() {
			break
		}
	}
	return mutable
}

// addExports returns an export section with the globals added.
func addExports(content []byte, globals []uint32) (section []byte, names []string, err error) {
	c := &cursor{data: content, end: len(content)}
	n := c.count("exports", maxExports+1)
	first := c.pos
	prefix := globalPrefix
	for range n {
		for name := string(c.name()); strings.HasPrefix(name, prefix); {
			prefix += "_"
		}
		c.byte()
		c.u32()
		if !c.ok() {
			return nil, nil, fmt.Errorf("find the exports: %w", c.err)
		}
	}
	if !c.ok() || c.left() != 0 {
		return nil, nil, fmt.Errorf("find the exports: the section is not what it claims")
	}
	body := binary.AppendUvarint(nil, uint64(n+len(globals)))
	body = append(body, content[first:]...)
	for _, g := range globals {
		name := fmt.Sprintf("%s%d", prefix, g)
		names = append(names, name)
		body = append(body, vectorOf([]byte(name))...)
		body = binary.AppendUvarint(append(body, kindGlobal), uint64(g))
	}
	return append([]byte{sectionExport}, vectorOf(body)...), names, nil
}
