package scope

import "time"

// RestAfter is restAfter, for its test.
func RestAfter(took time.Duration, silences int) time.Duration { return restAfter(took, silences) }
