package plan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScan(t *testing.T) {
	literal := func(s string) segment { return segment{text: s} }
	cel := func(s string) segment { return segment{text: s, expression: true} }
	for name, tc := range map[string]struct {
		reason string
		in     string
		want   []segment
		err    string
	}{
		"Empty":            {reason: "an empty string has no segments", in: ""},
		"Literal":          {reason: "plain text is one literal", in: "a $ b } {", want: []segment{literal("a $ b } {")}},
		"Whole":            {reason: "one expression and nothing else", in: "${a.b}", want: []segment{cel("a.b")}},
		"Embedded":         {reason: "text on both sides is kept", in: "x-${a}-y", want: []segment{literal("x-"), cel("a"), literal("-y")}},
		"Neighbours":       {reason: "two expressions need nothing between them", in: "${a}${b}", want: []segment{cel("a"), cel("b")}},
		"Escape":           {reason: "a doubled dollar is a literal", in: "$${a}", want: []segment{literal("${a}")}},
		"EscapeBehind":     {reason: "only the last two dollars are the escape", in: "$$${a}", want: []segment{literal("$${a}")}},
		"EscapeAndReal":    {reason: "an escape does not hide the next expression", in: "$${a}${b}", want: []segment{literal("${a}"), cel("b")}},
		"Map":              {reason: "braces of a map are skipped", in: `${{"a": {"b": 1}}}`, want: []segment{cel(`{"a": {"b": 1}}`)}},
		"BraceInQuotes":    {reason: "a brace in a text does not close", in: `${"}" + '}'}`, want: []segment{cel(`"}" + '}'`)}},
		"EscapedQuote":     {reason: "a backslash keeps the text open", in: `${"\"}"}`, want: []segment{cel(`"\"}"`)}},
		"RawQuote":         {reason: "in a raw text a backslash is a character", in: `${r"\"}`, want: []segment{cel(`r"\"`)}},
		"RawBytes":         {reason: "br is raw too", in: `${br'\'}`, want: []segment{cel(`br'\'`)}},
		"Bytes":            {reason: "b alone is not raw", in: `${b"\"}"}`, want: []segment{cel(`b"\"}"`)}},
		"NotAPrefix":       {reason: "the r of an identifier is no prefix", in: `${xr"\"}"}`, want: []segment{cel(`xr"\"}"`)}},
		"Triple":           {reason: "a triple quote ends with three", in: `${"""a"}"b"""}`, want: []segment{cel(`"""a"}"b"""`)}},
		"Comment":          {reason: "a brace in a comment does not close", in: "${a // }\n}", want: []segment{cel("a // }\n")}},
		"ExpressionInside": {reason: "an expression may hold the marks in a text", in: `${"${x}"}`, want: []segment{cel(`"${x}"`)}},
		"NonASCII":         {reason: "bytes of other letters pass", in: "ä${b}ö", want: []segment{literal("ä"), cel("b"), literal("ö")}},
		"Unclosed":         {reason: "the brace must close", in: "ab${a", err: "at byte 2: ${ has no matching }"},
		"UnclosedQuote":    {reason: "a text must close", in: `${"a}`, err: "is not closed"},
		"UnclosedComment":  {reason: "a comment hides what closes", in: `${a // }`, err: "no matching }"},
		"Blank":            {reason: "an empty expression means nothing", in: "${ }", err: "the expression is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := scan(tc.in)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err, tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		"", "${a}", "x${a}y", "$${a}", "$$${", `${r"\"}`, `${"""}"""}`, "${a//}\n}", "${{}}", `${'\`, "${", "$", "}", `${bR"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		segments, err := scan(in)
		if err != nil {
			require.Contains(t, in, expressionOpen, "only an expression can be wrong")
			return
		}
		var rebuilt strings.Builder
		previousLiteral := false
		for _, s := range segments {
			require.NotEmpty(t, s.text, "no segment is empty")
			if s.expression {
				rebuilt.WriteString(expressionOpen + s.text + "}")
				previousLiteral = false
				continue
			}
			require.False(t, previousLiteral, "literals are joined")
			previousLiteral = true
			rebuilt.WriteString(strings.ReplaceAll(s.text, expressionOpen, expressionEscape))
		}
		again, err := scan(rebuilt.String())
		require.NoError(t, err, "what was scanned can be written again")
		require.Equal(t, segments, again, "and means the same")
	})
}
