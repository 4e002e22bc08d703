;; The shape of a module of Extism's JavaScript PDK: QuickJS, merged with a shim of the
;; plug-in's exports.
;;  * Wizer ran the initialiser when it was built: the memory begins large and full, and
;;    nothing is exported to initialise it.
;;  * An export calls a function by its number, and a host function is called through a table.
;;  * Every number has been a float64 of JavaScript on its way, offsets too.
;;  * An exception gives its text to error_set, and then the shim traps.
(type $request (func (param i64) (result i64)))
(import "wasi_snapshot_preview1" "clock_time_get" (func $clock_time_get (param i32 i64 i32) (result i32)))
(import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "fd_close" (func $fd_close (param i32) (result i32)))
(import "wasi_snapshot_preview1" "fd_seek" (func $fd_seek (param i32 i64 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "fd_fdstat_get" (func $fd_fdstat_get (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "environ_get" (func $environ_get (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes_get (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
(import "extism:host/env" "input_length" (func $input_length (result i64)))
(import "extism:host/env" "input_load_u8" (func $input_load_u8 (param i64) (result i32)))
(import "extism:host/env" "input_load_u64" (func $input_load_u64 (param i64) (result i64)))
(import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
(import "extism:host/env" "free" (func $free (param i64)))
(import "extism:host/env" "length" (func $length (param i64) (result i64)))
(import "extism:host/env" "load_u8" (func $load_u8 (param i64) (result i32)))
(import "extism:host/env" "load_u64" (func $load_u64 (param i64) (result i64)))
(import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
(import "extism:host/env" "store_u64" (func $store_u64 (param i64 i64)))
(import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
(import "extism:host/env" "error_set" (func $error_set (param i64)))
(import "extism:host/env" "get_log_level" (func $get_log_level (result i32)))
(import "extism:host/env" "log_trace" (func $log_trace (param i64)))
(import "extism:host/env" "log_debug" (func $log_debug (param i64)))
(import "extism:host/env" "log_info" (func $log_info (param i64)))
(import "extism:host/env" "log_warn" (func $log_warn (param i64)))
(import "extism:host/env" "log_error" (func $log_error (param i64)))
(import "extism:host/env" "config_get" (func $config_get (param i64) (result i64)))
(import "extism:host/env" "var_get" (func $var_get (param i64) (result i64)))
(import "extism:host/env" "var_set" (func $var_set (param i64 i64)))
(import "extism:host/env" "http_request" (func $http_request (param i64 i64) (result i64)))
(import "extism:host/env" "http_status_code" (func $http_status_code (result i32)))
(import "extism:host/env" "http_headers" (func $http_headers (result i64)))
(import "extism:host/user" "app_ensure" (func $app_ensure (param i64) (result i64)))
(import "extism:host/user" "app_remove" (func $app_remove (param i64) (result i64)))
(import "extism:host/user" "app_list" (func $app_list (param i64) (result i64)))
(import "extism:host/user" "kube_get" (func $kube_get (param i64) (result i64)))
(import "extism:host/user" "kube_list" (func $kube_list (param i64) (result i64)))
(import "extism:host/user" "kube_apply" (func $kube_apply (param i64) (result i64)))
(import "extism:host/user" "kube_delete" (func $kube_delete (param i64) (result i64)))
(import "extism:host/user" "secret_read" (func $secret_read (param i64) (result i64)))
(import "extism:host/user" "event" (func $event (param i64) (result i64)))

(memory (export "memory") 24)
(table $host_functions 9 funcref)
(elem (table $host_functions) (i32.const 0) func
  $app_ensure $app_remove $app_list $kube_get $kube_list $kube_apply $kube_delete $secret_read $event)
;; What Wizer has left: a flag that the engine is ready.
(data (i32.const 8) "\01")

(func (export "describe") (result i32) (call $invoke (i32.const 0)))
(func (export "provision") (result i32) (call $invoke (i32.const 1)))
(func (export "deprovision") (result i32) (call $invoke (i32.const 2)))

(func $invoke (param $export i32) (result i32)
  (if (i32.eqz (i32.load8_u (i32.const 8))) (then (unreachable)))
  (if (i32.eqz (local.get $export)) (then (return (call $describe))))
  ;; Date.now and Math.random are asked for as the interpreter starts to work.
  (drop (call $clock_time_get (i32.const 0) (i64.const 1000) (i32.const 16)))
  (drop (call $random_get (i32.const 24) (i32.const 8)))
  (call $run))

(func $read_input
  (local $i i64) (local $n i64) (local $to i32)
  (local.set $n (call $input_length))
  (local.set $to (call $take (i32.add (i32.wrap_i64 (local.get $n)) (i32.const 8))))
  (global.set $in (local.get $to))
  (global.set $in_len (i32.wrap_i64 (local.get $n)))
  (block $tail
    (loop $words
      (br_if $tail (i64.gt_u (i64.add (local.get $i) (i64.const 8)) (local.get $n)))
      (i64.store align=1 (i32.add (local.get $to) (i32.wrap_i64 (local.get $i))) (call $input_load_u64 (local.get $i)))
      (local.set $i (i64.add (local.get $i) (i64.const 8)))
      (br $words)))
  (block $end
    (loop $bytes
      (br_if $end (i64.ge_u (local.get $i) (local.get $n)))
      (i32.store8 (i32.add (local.get $to) (i32.wrap_i64 (local.get $i))) (call $input_load_u8 (local.get $i)))
      (local.set $i (i64.add (local.get $i) (i64.const 1)))
      (br $bytes))))

;; A block of the host as the number that JavaScript sees.
(func $block (param $at i32) (param $n i32) (result f64)
  (local $offset i64) (local $i i32)
  (local.set $offset (call $alloc (i64.extend_i32_u (local.get $n))))
  (block $tail
    (loop $words
      (br_if $tail (i32.gt_u (i32.add (local.get $i) (i32.const 8)) (local.get $n)))
      (call $store_u64 (i64.add (local.get $offset) (i64.extend_i32_u (local.get $i)))
        (i64.load align=1 (i32.add (local.get $at) (local.get $i))))
      (local.set $i (i32.add (local.get $i) (i32.const 8)))
      (br $words)))
  (block $end
    (loop $bytes
      (br_if $end (i32.ge_u (local.get $i) (local.get $n)))
      (call $store_u8 (i64.add (local.get $offset) (i64.extend_i32_u (local.get $i)))
        (i32.load8_u (i32.add (local.get $at) (local.get $i))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $bytes)))
  (f64.convert_i64_u (local.get $offset)))

(func $emit (param $at i32) (param $n i32)
  (call $output_set (i64.trunc_sat_f64_u (call $block (local.get $at) (local.get $n))) (i64.extend_i32_u (local.get $n))))

(func $host (param $which i32) (param $at i32) (param $n i32)
  (local $request f64) (local $response f64) (local $i i32)
  (local.set $request (call $block (local.get $at) (local.get $n)))
  (local.set $response (f64.convert_i64_s
    (call_indirect $host_functions (type $request) (i64.trunc_sat_f64_s (local.get $request)) (local.get $which))))
  (global.set $in_len (i32.wrap_i64 (call $length (i64.trunc_sat_f64_s (local.get $response)))))
  (global.set $in (call $take (global.get $in_len)))
  (block $end
    (loop $bytes
      (br_if $end (i32.ge_u (local.get $i) (global.get $in_len)))
      (i32.store8 (i32.add (global.get $in) (local.get $i))
        (call $load_u8 (i64.trunc_sat_f64_s (f64.add (local.get $response) (f64.convert_i32_u (local.get $i))))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $bytes)))
  ;; The PDK's Memory objects are freed, and some of them twice.
  (call $free (i64.trunc_sat_f64_s (local.get $request)))
  (call $free (i64.trunc_sat_f64_s (local.get $request))))

(func $say (param $level i32) (param $at i32) (param $n i32)
  (local $line i64)
  (if (i32.lt_s (local.get $level) (call $get_log_level)) (then (return)))
  (local.set $line (i64.trunc_sat_f64_u (call $block (local.get $at) (local.get $n))))
  (if (i32.eq (local.get $level) (i32.const 1)) (then (call $log_debug (local.get $line))))
  (if (i32.eq (local.get $level) (i32.const 2)) (then (call $log_info (local.get $line))))
  (if (i32.eq (local.get $level) (i32.const 3)) (then (call $log_warn (local.get $line))))
  (if (i32.eq (local.get $level) (i32.const 4)) (then (call $log_error (local.get $line)))))

(func $die (param $at i32) (param $n i32)
  (call $error_set (i64.trunc_sat_f64_u (call $block (local.get $at) (local.get $n))))
  (unreachable))
