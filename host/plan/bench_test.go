package plan

import "testing"

// BenchmarkBuild compares a first Build of a generation with the later ones.
func BenchmarkBuild(b *testing.B) {
	stack := parseStack(b, demo)
	for name, cache := range map[string]*Cache{"cold": nil, "cached": NewCache(1)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Build(stack, Dependencies{Cache: cache}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDocument evaluates a config with two expressions.
func BenchmarkDocument(b *testing.B) {
	compiled, err := compile(parseStack(b, demo))
	if err != nil {
		b.Fatal(err)
	}
	e := &evaluator{compiled: compiled, facts: newFacts(nil)}
	ctx := newWorld(b, parseStack(b, demo)).context(b.Context())
	for b.Loop() {
		if _, err := e.document(ctx, "cni", forProvision); err != nil {
			b.Fatal(err)
		}
	}
}
