package wasmfile

import "fmt"

// entryLimit bounds the imports and the exports that are listed; Go's own linker
// makes a few dozen.
const entryLimit = 10_000

// Kind is what an import or an export is.
type Kind byte

// The kinds, as numbered by the Wasm specification.
const (
	KindFunc   Kind = 0
	KindTable  Kind = 1
	KindMemory Kind = 2
	KindGlobal Kind = 3
	KindTag    Kind = 4
)

// String returns the keyword of the text format.
func (k Kind) String() string {
	switch k {
	case KindFunc:
		return "func"
	case KindTable:
		return "table"
	case KindMemory:
		return "memory"
	case KindGlobal:
		return "global"
	case KindTag:
		return "tag"
	default:
		return fmt.Sprintf("kind %d", byte(k))
	}
}

// Import is one entry of the import section.
type Import struct {
	Module string
	Name   string
	Kind   Kind
}

// Export is one entry of the export section.
type Export struct {
	Name string
	Kind Kind
}

// Imports lists what the module imports, in the file's order. It fails for bytes that
// are no core module, for a damaged file and for a kind that this package does not know.
func Imports(wasm []byte) ([]Import, error) {
	var imports []Import
	err := eachSection(wasm, func(s section) error {
		if s.id != sectionImport {
			return nil
		}
		return eachEntry(s.body, "import", func(r *reader) error {
			entry, err := readImport(r)
			if err == nil {
				imports = append(imports, entry)
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return imports, nil
}

// Exports lists what the module exports, in the file's order. It fails as [Imports] does.
func Exports(wasm []byte) ([]Export, error) {
	var exports []Export
	err := eachSection(wasm, func(s section) error {
		if s.id != sectionExport {
			return nil
		}
		return eachEntry(s.body, "export", func(r *reader) error {
			entry, err := readExport(r)
			if err == nil {
				exports = append(exports, entry)
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return exports, nil
}

// eachEntry calls read for each entry of a vector, which must fill body exactly.
func eachEntry(body []byte, what string, read func(*reader) error) error {
	r := reader{buf: body}
	count, err := r.uint32()
	if err != nil {
		return fmt.Errorf("%s section: %w", what, err)
	}
	if count > entryLimit {
		return fmt.Errorf("%s section: has %d entries and %d are allowed", what, count, entryLimit)
	}
	for i := range count {
		if err := read(&r); err != nil {
			return fmt.Errorf("%s %d: %w", what, i, err)
		}
	}
	if len(r.buf) > 0 {
		return fmt.Errorf("%s section: has %d bytes after its last entry; the file is damaged", what, len(r.buf))
	}
	return nil
}

func readImport(r *reader) (Import, error) {
	module, err := r.name()
	if err != nil {
		return Import{}, err
	}
	name, err := r.name()
	if err != nil {
		return Import{}, err
	}
	kind, err := r.byte()
	if err != nil {
		return Import{}, err
	}
	entry := Import{Module: module, Name: name, Kind: Kind(kind)}
	return entry, skipType(r, entry.Kind)
}

func readExport(r *reader) (Export, error) {
	name, err := r.name()
	if err != nil {
		return Export{}, err
	}
	kind, err := r.byte()
	if err != nil {
		return Export{}, err
	}
	_, err = r.uint32()
	return Export{Name: name, Kind: Kind(kind)}, err
}

// skipType reads past the type of an import.
func skipType(r *reader, kind Kind) error {
	switch kind {
	case KindFunc:
		_, err := r.uint32()
		return err
	case KindTable:
		if _, err := r.byte(); err != nil {
			return err
		}
		return skipLimits(r)
	case KindMemory:
		return skipLimits(r)
	case KindGlobal:
		if _, err := r.byte(); err != nil {
			return err
		}
		_, err := r.byte()
		return err
	case KindTag:
		if _, err := r.byte(); err != nil {
			return err
		}
		_, err := r.uint32()
		return err
	default:
		return fmt.Errorf("is of unknown %s; the module needs a feature that this version does not read", kind)
	}
}

// skipLimits reads past the minimum and, if the flags say so, the maximum.
func skipLimits(r *reader) error {
	flags, err := r.byte()
	if err != nil {
		return err
	}
	if _, err := r.uint32(); err != nil {
		return err
	}
	if flags&1 == 0 {
		return nil
	}
	_, err = r.uint32()
	return err
}
