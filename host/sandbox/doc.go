// Package sandbox compiles and runs untrusted Wasm modules in child processes.
//
// It knows modules, bytes and limits, and nothing about Kubernetes. A module passes
// through it like this:
//
//	Load ─▶ Preflight (parent, pure) ─▶ compile worker (dies) ─▶ run worker ─▶ describe
//	Call ─▶ pool ─▶ run worker ─▶ fresh state ─▶ export ─▶ code and output ─▶ restore
//	                     └─ host function ─▶ parent ─▶ answer ─┘
//
// [Preflight] parses the bytes without trusting a single number in them. What it lets
// through is compiled and run by a worker: a process with an empty environment, two
// pipes and hard limits, which is this same package behind [WorkerMain]. Parent and
// worker exchange frames (frame.go, protocol.go); the parent takes every frame for
// hostile, bounds what it reads and never waits without a deadline, whose end is a
// SIGKILL. That is why nothing a module does can hold up the process that embeds this
// package: a loop, a stall of the garbage collector or an allocation without end
// happens to the worker, and the worker is replaced.
//
// A worker is confined in layers (layer.go), each of which holds without the others. It
// puts them on before it reads a module, with access to the native code of that module;
// once that is loaded, and before the first instruction of it is run, it gives up this as
// well (harden_linux.go). What a machine lacks is said by [Sandbox.Layers] and, once, in
// the log.
//
// Every call has limits (limits.go), and each that is hit is a [*Fault] with both of its
// numbers. Who holds a guest to them depends on who can: its memory and blocks the worker,
// its tables code that is added to it (recode.go), its requests and answers the parent
// (budget.go), its processor time the parent by the kernel's clock (cpu.go), and all that
// is left the resource limits of the process.
//
// A module that is trusted like the program itself may run in this process instead
// (inprocess.go): the same loop in a goroutine, behind the same pipes.
//
// No call sees what another one left. A worker keeps one instance and, after each call,
// puts its memory and its globals back to what they were when the initialiser had run
// (snapshot.go); where that is not all that a module can change (preflight_state.go), or a
// call failed, the next call gets an instance made for it. [Stats] tells how often either
// happened. A worker serves one tenant besides.
//
// Native code is kept on disk between runs. The parent rewrites a module (rewrite.go), a
// worker that does nothing else compiles it, and the parent seals what that has written
// (native.go); what does not match its seal is not run. A worker that serves loads the
// module without its code (skeleton.go) and maps the native code (codepages_linux.go).
//
// The functions of Extism that guests call once for each word are Wasm of our own
// (kernel.go), the others are Go. Host functions run in the parent, in the goroutine that
// called [Module.Call].
//
// It is the only package that imports wazero.
package sandbox
