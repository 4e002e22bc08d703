package wasmfile

import (
	"errors"
	"fmt"

	"github.com/caisson-dev/caisson/abi"
)

// MaxManifestBytes bounds the manifest in a module. It holds sentences and a JSON
// Schema, for which a quarter of a megabyte is generous.
const MaxManifestBytes = 256 << 10

// Manifest returns the content of the module's custom section "caisson.manifest" and
// whether there is one. The bytes alias wasm. It fails for bytes that are no core
// module, for a damaged file, for a section over [MaxManifestBytes], and for a module
// with two such sections, because readers could disagree on which one counts.
func Manifest(wasm []byte) ([]byte, bool, error) {
	var manifest []byte
	found := false
	err := eachSection(wasm, func(s section) error {
		ours, content, err := manifestSection(s)
		if err != nil || !ours {
			return err
		}
		if found {
			return fmt.Errorf("the module has more than one section %s; build it again", abi.ManifestSection)
		}
		if len(content) > MaxManifestBytes {
			return tooLarge(len(content))
		}
		manifest, found = content, true
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	return manifest, found, nil
}

// Embed returns a copy of wasm whose only custom section "caisson.manifest" holds
// manifest, at the end of the file. Every other byte stays as it is, so the result
// depends on the two arguments alone. It fails as [Manifest] does, except that
// sections that are there already are replaced, however many.
func Embed(wasm, manifest []byte) ([]byte, error) {
	if len(manifest) == 0 {
		return nil, errors.New("the manifest is empty")
	}
	if len(manifest) > MaxManifestBytes {
		return nil, tooLarge(len(manifest))
	}
	out := make([]byte, 0, len(wasm)+len(manifest)+len(abi.ManifestSection)+16)
	if err := Check(wasm); err != nil {
		return nil, err
	}
	out = append(out, wasm[:headerSize]...)
	err := eachSection(wasm, func(s section) error {
		ours, _, err := manifestSection(s)
		if err != nil || ours {
			return err
		}
		out = append(out, s.all...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	body := appendUint32(nil, uint32(len(abi.ManifestSection)))
	body = append(body, abi.ManifestSection...)
	body = append(body, manifest...)
	out = append(out, sectionCustom)
	out = appendUint32(out, uint32(len(body)))
	return append(out, body...), nil
}

// manifestSection reports whether s is the manifest's section, and its content.
func manifestSection(s section) (bool, []byte, error) {
	if s.id != sectionCustom {
		return false, nil, nil
	}
	content := reader{buf: s.body}
	name, err := content.name()
	if err != nil {
		return false, nil, fmt.Errorf("custom section: %w", err)
	}
	return name == abi.ManifestSection, content.buf, nil
}

func tooLarge(size int) error {
	return fmt.Errorf("the manifest has %d bytes and %d are allowed; shorten its sentences or its schema", size, MaxManifestBytes)
}
