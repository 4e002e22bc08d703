package abitest

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/caisson-dev/caisson/abi"
)

// TB is what the checks need of a *testing.T.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// CheckRead checks that an SDK reads every envelope as it must. read returns what the
// module sees of an envelope.
func CheckRead(t TB, read func(envelope []byte) (abi.Input, error)) {
	t.Helper()
	for _, v := range load(t).Inputs {
		got, err := read(v.Envelope)
		if err != nil {
			t.Errorf("input %s (%s): %v", v.Name, v.Reason, err)
			continue
		}
		if w, g := encode(t, v.Want), encode(t, got); w != g {
			t.Errorf("input %s (%s)\nwant %s\ngot  %s", v.Name, v.Reason, w, g)
		}
	}
}

// CheckWrite checks that an SDK writes every canonical answer as it must. write returns
// the code and the output of a module that comes to a conclusion.
func CheckWrite(t TB, write func(c Conclusion) (code int32, output []byte)) {
	t.Helper()
	for _, v := range load(t).Answers {
		if !v.Canonical {
			continue
		}
		code, output := write(v.Want)
		if code != v.Code || !sameJSON([]byte(v.Output), output) {
			t.Errorf("answer %s (%s)\nwant %d %s\ngot  %d %s", v.Name, v.Reason, v.Code, v.Output, code, output)
		}
	}
}

// CheckConclude checks that a host concludes from every answer what it must.
func CheckConclude(t TB, conclude func(manifest *abi.Manifest, code int32, output []byte) Conclusion) {
	t.Helper()
	set := load(t)
	for _, v := range set.Answers {
		got := conclude(&set.Manifest, v.Code, []byte(v.Output))
		if !strings.Contains(got.Why, v.Want.Why) {
			t.Errorf("answer %s (%s): the why %q does not contain %q", v.Name, v.Reason, got.Why, v.Want.Why)
		}
		got.Why = v.Want.Why
		if w, g := encode(t, v.Want), encode(t, got); w != g {
			t.Errorf("answer %s (%s)\nwant %s\ngot  %s", v.Name, v.Reason, w, g)
		}
	}
}

// CheckExchanges checks that an SDK asks for things as it must. call makes the host call
// of the vector of that name, in which answer takes the request and returns the response;
// it returns false for a vector that it does not know, which fails the check.
func CheckExchanges(t TB, call func(name string, answer func(f abi.Function, request []byte) []byte) bool) {
	t.Helper()
	for _, v := range load(t).Exchanges {
		asked := 0
		known := call(v.Name, func(f abi.Function, request []byte) []byte {
			asked++
			if f != v.Function || !sameJSON(v.Request, request) {
				t.Errorf("exchange %s (%s)\nwant %s %s\ngot  %s %s", v.Name, v.Reason, v.Function, v.Request, f, request)
			}
			return v.Response
		})
		if !known || asked != 1 {
			t.Errorf("exchange %s (%s): known %t, calls %d", v.Name, v.Reason, known, asked)
		}
	}
}

func load(t TB) *Set {
	t.Helper()
	set, err := Vectors()
	if err != nil {
		t.Fatalf("abitest: %v", err)
	}
	return set
}

func encode(t TB, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("abitest: encode: %v", err)
	}
	return string(raw)
}

// sameJSON compares two documents without regard to spaces and the order of keys, but to
// every digit of a number.
func sameJSON(a, b []byte) bool {
	x, okX := canonical(a)
	y, okY := canonical(b)
	return okX && okY && x == y
}

func canonical(raw []byte) (string, bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "", false
	}
	out, err := json.Marshal(v)
	return string(out), err == nil
}
