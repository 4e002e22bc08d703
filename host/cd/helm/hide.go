package helm

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// hidden is what stands for a secret in a text.
const hidden = "[secret]"

// shortestHidden is the length from which a secret is hidden in texts. Hiding shorter
// ones would riddle every message without protecting anything.
const shortestHidden = 3

// shortestLine is the length from which one line of a longer secret is hidden as well: a
// parser that stumbles over a key or a certificate quotes the line.
const shortestLine = 16

// shortestPiece is the length from which a part of a stored value is hidden as well: of a
// URL with a password in it, only the whole is known when it is read from a release.
const shortestPiece = 6

// The places of one application that are recorded: some 2 KiB, so that the largest tree
// fits into its inventory with them. Beyond that everything counts as secret.
const (
	maxPlaces     = 32
	maxPlacesSize = 2 << 10
)

// everything is the place of all values: the JSON pointer of the whole document.
const everything = ""

// hiding returns a function that replaces the secrets, as they are and as messages quote
// them. The longest come first: one may begin with another.
func hiding(secrets []string) func(string) string {
	var forms []string
	for _, secret := range secrets {
		if len(secret) < shortestHidden {
			continue
		}
		forms = append(forms, secret, base64.StdEncoding.EncodeToString([]byte(secret)), strings.Trim(strconv.Quote(secret), `"`))
		for line := range strings.Lines(secret) {
			if line = strings.TrimSpace(line); len(line) >= shortestLine {
				forms = append(forms, line)
			}
		}
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	var pairs []string
	for _, form := range slices.Compact(forms) {
		pairs = append(pairs, form, hidden)
	}
	return strings.NewReplacer(pairs...).Replace
}

// places are the JSON pointers of the values that hold a secret. They are recorded, since
// a removal knows the release and the values in it, but not where those came from.
func places(values map[string]any, secrets []string) []string {
	var found []string
	walk(values, "", func(pointer, text string) {
		holds := func(secret string) bool { return len(secret) >= shortestHidden && strings.Contains(text, secret) }
		if slices.ContainsFunc(secrets, holds) {
			found = append(found, pointer)
		}
	})
	return mergePlaces(found, nil)
}

// mergePlaces adds places to others, within the bound.
func mergePlaces(list, more []string) []string {
	merged := merge(list, more)
	size := 0
	for _, place := range merged {
		size += len(place)
	}
	if len(merged) > maxPlaces || size > maxPlacesSize || slices.Contains(merged, everything) {
		return []string{everything}
	}
	return merged
}

// textsAt are the texts that values have at the places, and their pieces.
func textsAt(values map[string]any, at []string) []string {
	if len(at) == 0 {
		return nil
	}
	var found []string
	walk(values, "", func(pointer, text string) {
		if slices.Contains(at, pointer) || slices.Contains(at, everything) {
			found = append(append(found, text), pieces(text)...)
		}
	})
	return found
}

func pieces(text string) []string {
	separates := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.", r)
	}
	return slices.DeleteFunc(strings.FieldsFunc(text, separates), func(piece string) bool { return len(piece) < shortestPiece })
}

// walk visits the leaves of values with their JSON pointers, as texts. Neither booleans
// nor nulls are secrets.
func walk(value any, pointer string, visit func(pointer, text string)) {
	switch v := wholeNumber(value).(type) {
	case map[string]any:
		for key, item := range v {
			walk(item, pointer+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(key), visit)
		}
	case []any:
		for i, item := range v {
			walk(item, pointer+"/"+strconv.Itoa(i), visit)
		}
	case nil, bool:
	default:
		visit(pointer, fmt.Sprint(v))
	}
}

// veiled is an error whose text has no secrets in it. What it means can still be told.
type veiled struct {
	text string
	err  error
}

func veil(err error, hide func(string) string) error {
	if err == nil {
		return nil
	}
	return &veiled{text: hide(err.Error()), err: err}
}

// Error implements error.
func (v *veiled) Error() string { return v.text }

// Unwrap returns the error as it was.
func (v *veiled) Unwrap() error { return v.err }
