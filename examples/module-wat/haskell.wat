;; The shape of a module of Extism's Haskell PDK: GHC for Wasm, built as a library.
;;  * It exports _initialize and hs_init, and nothing works before both have run.
;;  * GHC jumps from one piece of code to the next with tail calls, hundreds of thousands of
;;    them in a row; as ordinary calls they would overflow the stack.
;;  * The functions of the host are reached through stubs in C, which read the input as a
;;    block with length_unsafe, and whose output may be a part of a block.
(import "wasi_snapshot_preview1" "args_get" (func $args_get (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes_get (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "environ_get" (func $environ_get (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes_get (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "clock_time_get" (func $clock_time_get (param i32 i64 i32) (result i32)))
(import "wasi_snapshot_preview1" "fd_close" (func $fd_close (param i32) (result i32)))
(import "wasi_snapshot_preview1" "fd_fdstat_get" (func $fd_fdstat_get (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "fd_fdstat_set_flags" (func $fd_fdstat_set_flags (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "fd_filestat_get" (func $fd_filestat_get (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "fd_prestat_get" (func $fd_prestat_get (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "fd_prestat_dir_name" (func $fd_prestat_dir_name (param i32 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "fd_seek" (func $fd_seek (param i32 i64 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "path_open" (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "poll_oneoff" (func $poll_oneoff (param i32 i32 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
(import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
(import "extism:host/env" "input_offset" (func $input_offset (result i64)))
(import "extism:host/env" "length_unsafe" (func $length_unsafe (param i64) (result i64)))
(import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
(import "extism:host/env" "free" (func $free (param i64)))
(import "extism:host/env" "load_u8" (func $load_u8 (param i64) (result i32)))
(import "extism:host/env" "load_u64" (func $load_u64 (param i64) (result i64)))
(import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
(import "extism:host/env" "store_u64" (func $store_u64 (param i64 i64)))
(import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
(import "extism:host/env" "error_set" (func $error_set (param i64)))
(import "extism:host/env" "config_get" (func $config_get (param i64) (result i64)))
(import "extism:host/env" "var_get" (func $var_get (param i64) (result i64)))
(import "extism:host/env" "var_set" (func $var_set (param i64 i64)))
(import "extism:host/env" "http_request" (func $http_request (param i64 i64) (result i64)))
(import "extism:host/env" "http_status_code" (func $http_status_code (result i32)))
(import "extism:host/env" "get_log_level" (func $get_log_level (result i32)))
(import "extism:host/env" "log_debug" (func $log_debug (param i64)))
(import "extism:host/env" "log_info" (func $log_info (param i64)))
(import "extism:host/env" "log_warn" (func $log_warn (param i64)))
(import "extism:host/env" "log_error" (func $log_error (param i64)))
(import "extism:host/user" "app_ensure" (func $app_ensure (param i64) (result i64)))
(import "extism:host/user" "app_remove" (func $app_remove (param i64) (result i64)))
(import "extism:host/user" "app_list" (func $app_list (param i64) (result i64)))
(import "extism:host/user" "kube_get" (func $kube_get (param i64) (result i64)))
(import "extism:host/user" "kube_list" (func $kube_list (param i64) (result i64)))
(import "extism:host/user" "kube_apply" (func $kube_apply (param i64) (result i64)))
(import "extism:host/user" "kube_delete" (func $kube_delete (param i64) (result i64)))
(import "extism:host/user" "secret_read" (func $secret_read (param i64) (result i64)))
(import "extism:host/user" "event" (func $event (param i64) (result i64)))

(memory (export "memory") 64)
(global $ready (mut i32) (i32.const 0))

(func (export "_initialize")
  (if (global.get $ready) (then (unreachable)))
  (global.set $ready (i32.const 1)))
(func (export "hs_init") (param $argc i32) (param $argv i32)
  (if (i32.or (local.get $argc) (local.get $argv)) (then (unreachable)))
  (if (i32.ne (global.get $ready) (i32.const 1)) (then (unreachable)))
  (global.set $ready (i32.const 2)))

(func $enter (if (i32.ne (global.get $ready) (i32.const 2)) (then (unreachable))))
(func (export "describe") (result i32) (call $enter) (return_call $describe))
(func (export "provision") (result i32) (call $enter) (return_call $run))
(func (export "deprovision") (result i32) (call $enter) (return_call $run))

;; Copies a block of the host into memory, one byte for each jump.
(func $copy_in (param $from i64) (param $to i32) (param $n i32)
  (if (i32.eqz (local.get $n)) (then (return)))
  (i32.store8 (local.get $to) (call $load_u8 (local.get $from)))
  (return_call $copy_in (i64.add (local.get $from) (i64.const 1)) (i32.add (local.get $to) (i32.const 1)) (i32.sub (local.get $n) (i32.const 1))))

(func $copy_out (param $from i32) (param $to i64) (param $n i32)
  (if (i32.eqz (local.get $n)) (then (return)))
  (call $store_u8 (local.get $to) (i32.load8_u (local.get $from)))
  (return_call $copy_out (i32.add (local.get $from) (i32.const 1)) (i64.add (local.get $to) (i64.const 1)) (i32.sub (local.get $n) (i32.const 1))))

(func $take_block (param $offset i64)
  (global.set $in_len (i32.wrap_i64 (call $length_unsafe (local.get $offset))))
  (global.set $in (call $take (global.get $in_len)))
  (return_call $copy_in (local.get $offset) (global.get $in) (global.get $in_len)))

(func $read_input (return_call $take_block (call $input_offset)))

(func $block (param $at i32) (param $n i32) (result i64)
  (local $offset i64)
  (local.set $offset (call $alloc (i64.extend_i32_u (local.get $n))))
  (call $copy_out (local.get $at) (local.get $offset) (local.get $n))
  (local.get $offset))

;; The output begins eight bytes into its block, behind a header of the runtime.
(func $emit (param $at i32) (param $n i32)
  (local $offset i64)
  (local.set $offset (i64.add (call $alloc (i64.extend_i32_u (i32.add (local.get $n) (i32.const 8)))) (i64.const 8)))
  (call $copy_out (local.get $at) (local.get $offset) (local.get $n))
  (call $output_set (local.get $offset) (i64.extend_i32_u (local.get $n))))

(func $invoke (param $which i32) (param $request i64) (result i64)
  (block $event
    (block $secret_read
      (block $kube_delete
        (block $kube_apply
          (block $kube_list
            (block $kube_get
              (block $app_list
                (block $app_remove
                  (block $app_ensure
                    (br_table $app_ensure $app_remove $app_list $kube_get $kube_list $kube_apply $kube_delete $secret_read $event (local.get $which)))
                  (return_call $app_ensure (local.get $request)))
                (return_call $app_remove (local.get $request)))
              (return_call $app_list (local.get $request)))
            (return_call $kube_get (local.get $request)))
          (return_call $kube_list (local.get $request)))
        (return_call $kube_apply (local.get $request)))
      (return_call $kube_delete (local.get $request)))
    (return_call $secret_read (local.get $request)))
  (return_call $event (local.get $request)))

(func $host (param $which i32) (param $at i32) (param $n i32)
  (return_call $take_block (call $invoke (local.get $which) (call $block (local.get $at) (local.get $n)))))

(func $say (param $level i32) (param $at i32) (param $n i32)
  (local $line i64)
  (local.set $line (call $block (local.get $at) (local.get $n)))
  (if (i32.eq (local.get $level) (i32.const 1)) (then (call $log_debug (local.get $line))))
  (if (i32.eq (local.get $level) (i32.const 2)) (then (call $log_info (local.get $line))))
  (if (i32.eq (local.get $level) (i32.const 3)) (then (call $log_warn (local.get $line))))
  (if (i32.eq (local.get $level) (i32.const 4)) (then (call $log_error (local.get $line)))))

(func $die (param $at i32) (param $n i32)
  (call $error_set (call $block (local.get $at) (local.get $n)))
  (unreachable))
