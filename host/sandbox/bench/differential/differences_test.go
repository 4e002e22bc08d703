package differential_test

// deviation is one field in which the hosts differ.
type deviation struct{ field, theirs, ours string }

// difference is what is different about one module, on purpose.
type difference struct {
	reason     string
	deviations []deviation
}

// Reasons that several differences have.
const (
	outOfRange = "an access outside of the blocks reads 0 and writes nothing, as in Extism's runtime in Rust: a PDK that was refused memory stores to offsets near 0, and must not change what the host keeps there"
	fresh      = "every call finds the state that the initialiser leaves, where the SDK keeps the instance, and whatever a call has done to it, for the next one"
	exits      = "an exit is a fault whatever its code, so that no code can pass for a disposition or for a deadline"
	errorText  = "what error_set got is for the log of the operator; the code alone says what happens next"
	kernel     = "no PDK imports what the kernel has for its hosts, and reset or input_set would undo what the host relies on"
	offsets    = "the number of an offset is the host's business"
)

// differences are those of the modules that are written byte by byte, by the name of the
// subject.
func differences() map[string]difference {
	return map[string]difference{
		"ask with what is not there":              {"a request that is not there is an empty one: host functions fail with values, never with traps", []deviation{{"ended", "trapped", "returned"}, {"code", "", "0"}, {"output", "", "35"}, {"asked", "", "event "}}},
		"config":                                  {"a module is configured by its input and by nothing else", []deviation{{"output", "5", "0"}}},
		"error and code 0":                        {errorText, []deviation{{"error", "sad", ""}, {"logs", "", "ERROR sad"}}},
		"error and code 4":                        {errorText, []deviation{{"error", "sad", ""}, {"logs", "", "ERROR sad"}}},
		"error and exit 0":                        {exits, []deviation{{"ended", "returned", "exited 0"}, {"code", "0", ""}, {"output", "\"\"", ""}}},
		"exit 0":                                  {exits, []deviation{{"ended", "returned", "exited 0"}, {"code", "0", ""}, {"output", "\"\"", ""}}},
		"http":                                    {"there is no network: a PDK makes an error of the status 0, which the guest can handle, where the SDK traps", []deviation{{"ended", "trapped", "returned"}, {"code", "", "0"}, {"output", "", "0 0"}, {"logs", "", "HOST the guest asked for HTTP, which is not available"}}},
		"import error_get":                        {kernel, []deviation{{"ended", "returned", "refused"}, {"code", "0", ""}, {"output", "\"\"", ""}}},
		"import input_set":                        {kernel, []deviation{{"ended", "returned", "refused"}, {"code", "0", ""}, {"output", "\"\"", ""}}},
		"import memory_bytes":                     {kernel, []deviation{{"ended", "returned", "refused"}, {"code", "0", ""}, {"output", "\"\"", ""}}},
		"import output_length":                    {kernel, []deviation{{"ended", "returned", "refused"}, {"code", "0", ""}, {"output", "\"\"", ""}}},
		"import output_offset":                    {kernel, []deviation{{"ended", "returned", "refused"}, {"code", "0", ""}, {"output", "\"\"", ""}}},
		"import reset":                            {kernel, []deviation{{"ended", "returned", "refused"}, {"code", "0", ""}, {"output", "\"\"", ""}}},
		"key of config is the host's":             {"the host owns the keys that it is given, as in Extism's runtime in Rust; the SDK frees those of variables only", []deviation{{"output", "5", "0"}}},
		"load a word at -1":                       {outOfRange, []deviation{{"ended", "trapped", "returned"}, {"code", "", "0"}, {"output", "", "0"}}},
		"load a word at 0":                        {outOfRange, []deviation{{"output", "256", "0"}}},
		"load a word at 1":                        {outOfRange, []deviation{{"output", "1", "0"}}},
		"load a word at 2^31":                     {outOfRange, []deviation{{"ended", "trapped", "returned"}, {"code", "", "0"}, {"output", "", "0"}}},
		"log what is no text":                     {"a log is lines of UTF-8 without anything that drives a terminal", []deviation{{"logs", "INFO a\nb\x1b[2J\xff", "INFO a b.[2J."}}},
		"offset after free":                       {"an offset is never used twice in a call, so that a PDK that frees twice, as go-pdk does, frees nobody else's block", []deviation{{"output", "1", "0"}}},
		"output and then none":                    {"an empty output replaces an earlier one; the SDK's kernel ignores it", []deviation{{"output", "\"first\"", "\"\""}}},
		"read a word across the end of the input": {outOfRange, []deviation{{"output", "1345267906101", "0"}}},
		"read far after the input":                {outOfRange, []deviation{{"ended", "trapped", "returned"}, {"code", "", "0"}, {"output", "", "0"}}},
		"store a word at -1":                      {outOfRange, []deviation{{"ended", "trapped", "returned"}, {"code", "", "0"}, {"output", "", "1"}}},
		"store a word at 0":                       {outOfRange, []deviation{{"output", "0", "1"}}},
		"store a word at 1":                       {outOfRange, []deviation{{"output", "0", "1"}}},
		"store a word at 2^31":                    {outOfRange, []deviation{{"ended", "trapped", "returned"}, {"code", "", "0"}, {"output", "", "1"}}},
		"twice: asked early":                      {"an initialiser that asks the host runs for each call, in the SDK only for the first; and the number of an offset is the host's business", []deviation{{"code", "91", "72"}, {"code of call 2", "91", "72"}, {"asked of call 2", "", "event in"}}},
		"twice: block made early":                 {fresh, []deviation{{"code of call 2", "0", "42"}}},
		"twice: blocks":                           {offsets, []deviation{{"code", "91", "72"}, {"code of call 2", "91", "72"}}},
		"twice: closed stream":                    {fresh, []deviation{{"code of call 2", "8", "0"}, {"stdout of call 2", "", "text"}}},
		"twice: data":                             {fresh, []deviation{{"code of call 2", "7", "6"}}},
		"twice: exit":                             {exits, []deviation{{"ended", "returned", "exited 0"}, {"code", "0", ""}, {"output", "\"\"", ""}, {"ended of call 2", "trapped", "exited 0"}}},
		"twice: full memory":                      {fresh, []deviation{{"code of call 2", "102", "1"}}},
		"twice: global":                           {fresh, []deviation{{"code of call 2", "2", "1"}}},
		"twice: grown memory":                     {fresh, []deviation{{"code of call 2", "103", "1"}}},
		"twice: no memory":                        {fresh, []deviation{{"code of call 2", "102", "0"}}},
		"twice: output and error":                 {errorText, []deviation{{"error", "in", ""}, {"logs", "", "ERROR in"}, {"error of call 2", "in", ""}, {"logs of call 2", "", "ERROR in"}}},
		"twice: printed early":                    {fresh, []deviation{{"stdout of call 2", " and end", "beginning and end"}, {"stderr of call 2", "", "warning"}}},
		"twice: start":                            {fresh, []deviation{{"code of call 2", "3", "2"}}},
		"twice: table":                            {fresh, []deviation{{"code of call 2", "0", "1"}}},
		"twice: trap early":                       {"a module whose initialiser traps is refused when it is loaded", []deviation{{"ended", "trapped", "refused"}, {"ended of call 2", "trapped", ""}}},
		"twice: variable":                         {fresh, []deviation{{"code of call 2", "50", "0"}}},
		"variable in a later call":                {fresh, []deviation{{"output of call 2", "1", "0"}}},
	}
}

// goGuestDifferences are those of the std Go guest, by the name of the input.
func goGuestDifferences() map[string]difference {
	const text = "input: invalid character 'o' in literal null (expecting 'u')"
	return map[string]difference{
		"garbage": {errorText, []deviation{{"error", text, ""}, {"logs", "", "ERROR " + text}}},
	}
}
