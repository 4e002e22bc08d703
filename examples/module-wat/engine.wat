;; The conformance module of abi/SPEC.md, as far as it has nothing to do with how a PDK talks
;; to its host. It stands for the interpreter that a PDK brings along. A shape, which comes
;; before it in the same module, has the memory, the imports, the exports and
;;   $read_input                  puts the input at $in, $in_len
;;   $emit  (at, length)          makes bytes the output
;;   $host  (function, at, length) asks a host function, by its place in the list below,
;;                                and puts the response at $in, $in_len
;;   $say   (level, at, length)   logs at 1 debug, 2 info, 3 warn, 4 error
;;   $die   (at, length)          gives the operator a text and traps

(data (i32.const 1024) "config")
(data (i32.const 1040) "do")
(data (i32.const 1056) "output")
(data (i32.const 1072) "code")
(data (i32.const 1088) "function")
(data (i32.const 1104) "request")
(data (i32.const 1120) "text")
(data (i32.const 1136) "bytes")
(data (i32.const 1152) "state")
(data (i32.const 1168) "count")
;; The host functions, sixteen bytes each, and their lengths.
(data (i32.const 1184) "app_ensure")
(data (i32.const 1200) "app_remove")
(data (i32.const 1216) "app_list")
(data (i32.const 1232) "kube_get")
(data (i32.const 1248) "kube_list")
(data (i32.const 1264) "kube_apply")
(data (i32.const 1280) "kube_delete")
(data (i32.const 1296) "secret_read")
(data (i32.const 1312) "event")
(data (i32.const 1328) "\0a\0a\08\08\09\0a\0b\0b\05")
(data (i32.const 1344) "{\22facts\22:{\22envelope\22:")
(data (i32.const 1376) "{\22facts\22:{\22response\22:")
(data (i32.const 1408) "{\22facts\22:{\22fill\22:\22")
(data (i32.const 1440) "{\22facts\22:{\22memory\22:")
(data (i32.const 1472) "},\22state\22:{\22count\22:")
(data (i32.const 1504) "}}")
(data (i32.const 1520) "\22}}")
(data (i32.const 2048)
  "{\22abi\22:1"
  ",\22name\22:\22vectors\22"
  ",\22version\22:\221.0.0\22"
  ",\22description\22:\22The module that the answers are from.\22"
  ",\22capabilities\22:[\22app_ensure\22,\22app_remove\22,\22app_list\22,\22kube_get\22,\22kube_list\22,\22kube_apply\22,\22kube_delete\22,\22secret_read\22,\22event\22]"
  ",\22kube\22:[{\22apiGroup\22:\22\22,\22kinds\22:[\22ConfigMap\22,\22Service\22],\22verbs\22:[\22get\22,\22list\22,\22apply\22,\22delete\22]}]"
  ",\22reasons\22:[{\22code\22:\22awaiting_address\22,\22sentence\22:\22The load balancer has no address yet.\22},{\22code\22:\22quota_exceeded\22,\22sentence\22:\22The project's quota is used up; raise it.\22}]"
  ",\22configSchema\22:{\22type\22:\22object\22}"
  ",\22requiresDrain\22:true}")

;; Memory is taken from here on and never given back: a call starts with fresh memory.
(global $heap (mut i32) (i32.const 65536))
(global $in (mut i32) (i32.const 0))
(global $in_len (mut i32) (i32.const 0))
;; Counts in memory: it must be 1 in every call.
(global $calls (mut i32) (i32.const 0))

(func $take (param $n i32) (result i32)
  (local $at i32)
  (local.set $at (global.get $heap))
  (global.set $heap (i32.add (local.get $at) (local.get $n)))
  (block $enough
    (loop $more
      (br_if $enough (i32.le_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536))))
      (br_if $more (i32.ne (memory.grow (i32.add (i32.div_u (local.get $n) (i32.const 65536)) (i32.const 1))) (i32.const -1)))
      (unreachable)))
  (local.get $at))

;; Adds bytes to an answer, which grows at the end of the heap.
(func $add (param $at i32) (param $n i32)
  (memory.copy (call $take (local.get $n)) (local.get $at) (local.get $n)))

(func $add_decimal (param $n i32)
  (if (i32.ge_u (local.get $n) (i32.const 10))
    (then (call $add_decimal (i32.div_u (local.get $n) (i32.const 10)))))
  (i32.store8 (call $take (i32.const 1))
    (i32.add (i32.rem_u (local.get $n) (i32.const 10)) (i32.const 48))))

;; Where a JSON string ends that begins at $p.
(func $string_end (param $p i32) (result i32)
  (loop $next
    (local.set $p (i32.add (local.get $p) (i32.const 1)))
    (if (i32.eq (i32.load8_u (local.get $p)) (i32.const 92)) ;; a backslash
      (then (local.set $p (i32.add (local.get $p) (i32.const 1))) (br $next)))
    (br_if $next (i32.ne (i32.load8_u (local.get $p)) (i32.const 34))))
  (i32.add (local.get $p) (i32.const 1)))

;; Where a JSON value ends that begins at $p. What a host sends is JSON, so that brackets are
;; only counted.
(func $value_end (param $p i32) (result i32)
  (local $c i32) (local $depth i32)
  (loop $next
    (local.set $c (i32.load8_u (local.get $p)))
    (if (i32.eq (local.get $c) (i32.const 34))
      (then
        (local.set $p (call $string_end (local.get $p)))
        (br_if $next (local.get $depth))
        (return (local.get $p))))
    ;; { and [, } and ] differ in one bit
    (if (i32.eq (i32.or (local.get $c) (i32.const 32)) (i32.const 123))
      (then
        (local.set $depth (i32.add (local.get $depth) (i32.const 1)))
        (local.set $p (i32.add (local.get $p) (i32.const 1)))
        (br $next)))
    (if (i32.eq (i32.or (local.get $c) (i32.const 32)) (i32.const 125))
      (then
        (if (i32.eqz (local.get $depth)) (then (return (local.get $p))))
        (local.set $depth (i32.sub (local.get $depth) (i32.const 1)))
        (local.set $p (i32.add (local.get $p) (i32.const 1)))
        (br_if $next (local.get $depth))
        (return (local.get $p))))
    (if (i32.and (i32.eqz (local.get $depth))
                 (i32.or (i32.eq (local.get $c) (i32.const 44)) (i32.le_u (local.get $c) (i32.const 32))))
      (then (return (local.get $p))))
    (local.set $p (i32.add (local.get $p) (i32.const 1)))
    (br $next))
  (unreachable))

(func $same (param $a i32) (param $b i32) (param $n i32) (result i32)
  (block $differ
    (loop $next
      (if (i32.eqz (local.get $n)) (then (return (i32.const 1))))
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (br_if $next (i32.eq (i32.load8_u (i32.add (local.get $a) (local.get $n)))
                           (i32.load8_u (i32.add (local.get $b) (local.get $n)))))))
  (i32.const 0))

;; Past white space and one more byte.
(func $skip (param $p i32) (param $also i32) (result i32)
  (block $end
    (loop $next
      (br_if $end (i32.eqz (i32.or (i32.le_u (i32.load8_u (local.get $p)) (i32.const 32))
                                   (i32.eq (i32.load8_u (local.get $p)) (local.get $also)))))
      (local.set $p (i32.add (local.get $p) (i32.const 1)))
      (br $next)))
  (local.get $p))

;; The value of a field of the object at $p, or 0.
(func $field (param $p i32) (param $name i32) (param $n i32) (result i32)
  (local $end i32) (local $found i32)
  (if (i32.eqz (local.get $p)) (then (return (i32.const 0))))
  (local.set $p (i32.add (local.get $p) (i32.const 1)))
  (loop $next
    (local.set $p (call $skip (local.get $p) (i32.const 44)))
    (if (i32.ne (i32.load8_u (local.get $p)) (i32.const 34)) (then (return (i32.const 0))))
    (local.set $end (call $string_end (local.get $p)))
    (local.set $found (i32.const 0))
    (if (i32.eq (i32.sub (local.get $end) (local.get $p)) (i32.add (local.get $n) (i32.const 2)))
      (then (local.set $found (call $same (i32.add (local.get $p) (i32.const 1)) (local.get $name) (local.get $n)))))
    (local.set $p (call $skip (local.get $end) (i32.const 58)))
    (if (local.get $found) (then (return (local.get $p))))
    (local.set $p (call $value_end (local.get $p)))
    (br $next))
  (unreachable))

;; The whole number at $p, 0 where there is none.
(func $number (param $p i32) (result i32)
  (local $n i32) (local $minus i32) (local $c i32)
  (if (i32.eqz (local.get $p)) (then (return (i32.const 0))))
  (local.set $minus (i32.eq (i32.load8_u (local.get $p)) (i32.const 45)))
  (local.set $p (i32.add (local.get $p) (local.get $minus)))
  (block $end
    (loop $next
      (local.set $c (i32.sub (i32.load8_u (local.get $p)) (i32.const 48)))
      (br_if $end (i32.ge_u (local.get $c) (i32.const 10)))
      (local.set $n (i32.add (i32.mul (local.get $n) (i32.const 10)) (local.get $c)))
      (local.set $p (i32.add (local.get $p) (i32.const 1)))
      (br $next)))
  (select (i32.sub (i32.const 0) (local.get $n)) (local.get $n) (local.get $minus)))

;; Which of the host functions the JSON string at $p names; a trap for no other reason than
;; that it names none.
(func $function (param $p i32) (result i32)
  (local $i i32) (local $n i32)
  (local.set $n (i32.sub (call $string_end (local.get $p)) (i32.add (local.get $p) (i32.const 2))))
  (loop $next
    (if (i32.eq (local.get $n) (i32.load8_u (i32.add (i32.const 1328) (local.get $i))))
      (then
        (if (call $same (i32.add (local.get $p) (i32.const 1))
                        (i32.add (i32.const 1184) (i32.mul (local.get $i) (i32.const 16))) (local.get $n))
          (then (return (local.get $i))))))
    (local.set $i (i32.add (local.get $i) (i32.const 1)))
    (br_if $next (i32.lt_u (local.get $i) (i32.const 9))))
  (unreachable))

(func $describe (result i32)
  (call $emit (i32.const 2048) (i32.const 547))
  (i32.const 0))

(func $run (result i32)
  (local $config i32) (local $verb i32) (local $at i32) (local $n i32) (local $from i32)
  (call $read_input)
  (local.set $config (call $field (global.get $in) (i32.const 1024) (i32.const 6)))
  ;; Two letters tell the verbs apart.
  (local.set $verb (i32.load16_u (i32.add (call $field (local.get $config) (i32.const 1040) (i32.const 2)) (i32.const 1))))

  (if (i32.eq (local.get $verb) (i32.const 0x6365)) ;; echo
    (then
      (local.set $from (global.get $heap))
      (call $add (i32.const 1344) (i32.const 21))
      (call $add (global.get $in) (global.get $in_len))
      (call $add (i32.const 1504) (i32.const 2))
      (call $emit (local.get $from) (i32.sub (global.get $heap) (local.get $from)))
      (return (i32.const 0))))

  (if (i32.eq (local.get $verb) (i32.const 0x6e61)) ;; answer
    (then
      (local.set $at (call $field (local.get $config) (i32.const 1056) (i32.const 6)))
      (call $emit (local.get $at) (i32.sub (call $value_end (local.get $at)) (local.get $at)))
      (return (call $number (call $field (local.get $config) (i32.const 1072) (i32.const 4))))))

  (if (i32.eq (local.get $verb) (i32.const 0x7361)) ;; ask
    (then
      (local.set $at (call $field (local.get $config) (i32.const 1104) (i32.const 7)))
      (call $host (call $function (call $field (local.get $config) (i32.const 1088) (i32.const 8)))
        (local.get $at) (i32.sub (call $value_end (local.get $at)) (local.get $at)))
      (local.set $from (global.get $heap))
      (call $add (i32.const 1376) (i32.const 21))
      (call $add (global.get $in) (global.get $in_len))
      (call $add (i32.const 1504) (i32.const 2))
      (call $emit (local.get $from) (i32.sub (global.get $heap) (local.get $from)))
      (return (i32.const 0))))

  (if (i32.eq (local.get $verb) (i32.const 0x6966)) ;; fill
    (then
      (local.set $n (call $number (call $field (local.get $config) (i32.const 1136) (i32.const 5))))
      (local.set $from (global.get $heap))
      (call $add (i32.const 1408) (i32.const 18))
      (memory.fill (call $take (local.get $n)) (i32.const 120) (local.get $n))
      (call $add (i32.const 1520) (i32.const 3))
      (call $emit (local.get $from) (i32.sub (global.get $heap) (local.get $from)))
      (return (i32.const 0))))

  (if (i32.eq (local.get $verb) (i32.const 0x6f63)) ;; count
    (then
      (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
      (local.set $n (call $number (call $field (call $field (global.get $in) (i32.const 1152) (i32.const 5)) (i32.const 1168) (i32.const 5))))
      (local.set $from (global.get $heap))
      (call $add (i32.const 1440) (i32.const 19))
      (call $add_decimal (global.get $calls))
      (call $add (i32.const 1472) (i32.const 19))
      (call $add_decimal (i32.add (local.get $n) (i32.const 1)))
      (call $add (i32.const 1504) (i32.const 2))
      (call $emit (local.get $from) (i32.sub (global.get $heap) (local.get $from)))
      (return (i32.const 0))))

  ;; log and fail have a text.
  (local.set $at (call $field (local.get $config) (i32.const 1120) (i32.const 4)))
  (if (i32.eqz (local.get $at)) (then (unreachable)))
  (local.set $n (i32.sub (call $string_end (local.get $at)) (i32.add (local.get $at) (i32.const 2))))
  (local.set $at (i32.add (local.get $at) (i32.const 1)))
  (if (i32.eq (local.get $verb) (i32.const 0x6f6c)) ;; log
    (then
      (call $say (i32.const 1) (local.get $at) (local.get $n))
      (call $say (i32.const 2) (local.get $at) (local.get $n))
      (call $say (i32.const 3) (local.get $at) (local.get $n))
      (call $say (i32.const 4) (local.get $at) (local.get $n))
      (return (i32.const 0))))
  (call $die (local.get $at) (local.get $n)) ;; and fail
  (unreachable))
