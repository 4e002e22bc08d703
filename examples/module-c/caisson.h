/* caisson.h: what a module in C needs, in one header and without a C library: the imports
 * of abi/SPEC.md, input and output, text, and just enough JSON to read an envelope.
 * Memory is taken from a bump allocator and never given back: a call starts with fresh
 * memory and is short. */
#ifndef CAISSON_H
#define CAISSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CAISSON_IMPORT(module, name) __attribute__((import_module(module), import_name(name)))
#define CAISSON_ENV(name) CAISSON_IMPORT("extism:host/env", #name)
/* A host function, (i64) -> i64. Declare those only that the module calls. */
#define CAISSON_FUNCTION(name) CAISSON_IMPORT("extism:host/user", #name) extern uint64_t name(uint64_t request)
#define CAISSON_EXPORT(name) __attribute__((export_name(#name))) int32_t name(void)

enum disposition { OK, YIELD, RETRY, USER_ACTION_REQUIRED, TERMINAL };

CAISSON_ENV(input_length) extern uint64_t caisson_input_length(void);
CAISSON_ENV(input_offset) extern uint64_t caisson_input_offset(void);
CAISSON_ENV(length) extern uint64_t caisson_length(uint64_t offset);
CAISSON_ENV(alloc) extern uint64_t caisson_alloc(uint64_t length);
CAISSON_ENV(load_u8) extern uint32_t caisson_load_u8(uint64_t offset);
CAISSON_ENV(load_u64) extern uint64_t caisson_load_u64(uint64_t offset);
CAISSON_ENV(store_u8) extern void caisson_store_u8(uint64_t offset, uint32_t value);
CAISSON_ENV(store_u64) extern void caisson_store_u64(uint64_t offset, uint64_t value);
CAISSON_ENV(output_set) extern void caisson_output_set(uint64_t offset, uint64_t length);
CAISSON_ENV(error_set) extern void caisson_error_set(uint64_t offset);
CAISSON_ENV(log_debug) extern void caisson_log_debug(uint64_t offset);
CAISSON_ENV(log_info) extern void caisson_log_info(uint64_t offset);
CAISSON_ENV(log_warn) extern void caisson_log_warn(uint64_t offset);
CAISSON_ENV(log_error) extern void caisson_log_error(uint64_t offset);

/* text is bytes of a known length; at is null where there is no text. */
typedef struct {
	const char *at;
	size_t length;
} text;

#define TEXT(literal) ((text){literal, sizeof(literal) - 1})

/* The linker puts __heap_base where the memory of the program ends. */
extern unsigned char __heap_base;
static uintptr_t caisson_heap;

static inline void *caisson_take(size_t size)
{
	const uintptr_t page = 65536;
	if (caisson_heap == 0)
		caisson_heap = (uintptr_t)&__heap_base;
	uintptr_t at = (caisson_heap + 7) & ~(uintptr_t)7;
	uintptr_t end = at + size, have = __builtin_wasm_memory_size(0) * page;
	if (end < at || (end > have && __builtin_wasm_memory_grow(0, (end - have + page - 1) / page) == (size_t)-1))
		__builtin_trap();
	caisson_heap = end;
	return (void *)at;
}

/* load copies a block of the host into memory, eight bytes at a time. */
static inline text caisson_load(uint64_t offset, uint64_t length)
{
	char *to = caisson_take(length + 8);
	uint64_t i = 0;
	for (; i + 8 <= length; i += 8)
		*(uint64_t *)(to + i) = caisson_load_u64(offset + i);
	for (; i < length; i++)
		to[i] = (char)caisson_load_u8(offset + i);
	return (text){to, length};
}

/* store makes a block of the host of a text. */
static inline uint64_t caisson_store(text t)
{
	typedef uint64_t __attribute__((aligned(1), may_alias)) word;
	uint64_t offset = caisson_alloc(t.length);
	size_t i = 0;
	for (; i + 8 <= t.length; i += 8)
		caisson_store_u64(offset + i, *(const word *)(t.at + i));
	for (; i < t.length; i++)
		caisson_store_u8(offset + i, (unsigned char)t.at[i]);
	return offset;
}

static inline text caisson_input(void)
{
	return caisson_load(caisson_input_offset(), caisson_input_length());
}

static inline void caisson_output(text t)
{
	caisson_output_set(caisson_store(t), t.length);
}

/* call asks a host function: the JSON of a request for the JSON of a response. */
static inline text caisson_call(uint64_t (*function)(uint64_t), text request)
{
	uint64_t response = function(caisson_store(request));
	return caisson_load(response, caisson_length(response));
}

/* fail gives the operator a text and traps. */
static inline _Noreturn void caisson_fail(text why)
{
	caisson_error_set(caisson_store(why));
	__builtin_trap();
}

static inline bool equal(text a, text b)
{
	if (a.length != b.length)
		return false;
	for (size_t i = 0; i < a.length; i++)
		if (a.at[i] != b.at[i])
			return false;
	return true;
}

/* join puts texts one behind the other: join(3, a, b, c). */
static inline text caisson_join(size_t n, const text *parts)
{
	size_t length = 0, done = 0;
	for (size_t i = 0; i < n; i++)
		length += parts[i].length;
	char *to = caisson_take(length);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < parts[i].length; k++)
			to[done++] = parts[i].at[k];
	return (text){to, length};
}

#define JOIN(...) caisson_join(sizeof((text[]){__VA_ARGS__}) / sizeof(text), (const text[]){__VA_ARGS__})

/* number reads a decimal number, and 0 where there is none. */
static inline int64_t number(text t)
{
	bool negative = t.length > 0 && t.at[0] == '-';
	int64_t n = 0;
	for (size_t i = negative; i < t.length && t.at[i] >= '0' && t.at[i] <= '9'; i++)
		n = n * 10 + (t.at[i] - '0');
	return negative ? -n : n;
}

static inline text decimal(int64_t n)
{
	char *end = (char *)caisson_take(24) + 24, *at = end;
	uint64_t rest = n < 0 ? -(uint64_t)n : (uint64_t)n;
	do
		*--at = (char)('0' + rest % 10);
	while (rest /= 10);
	if (n < 0)
		*--at = '-';
	return (text){at, (size_t)(end - at)};
}

/* json_end returns where the JSON value ends that begins at i. What a host sends is JSON,
 * so that brackets are only counted. */
static inline size_t json_end(text json, size_t i)
{
	size_t depth = 0;
	while (i < json.length) {
		char c = json.at[i];
		if (c == '"') {
			for (i++; i < json.length && json.at[i] != '"'; i++)
				if (json.at[i] == '\\')
					i++;
			i++;
		} else if (c == '{' || c == '[') {
			depth++, i++;
			continue;
		} else if (c == '}' || c == ']') {
			if (depth == 0)
				return i;
			depth--, i++;
		} else if (depth == 0 && (c == ',' || c == ':' || c <= ' ')) {
			return i;
		} else {
			i++;
			if (depth == 0)
				continue;
		}
		if (depth == 0)
			return i;
	}
	return json.length;
}

/* json returns the value of a field of an object as it stands there, a string with its
 * quotes; its at is null if there is no such field. */
static inline text json(text object, text name)
{
	size_t i = 0;
	while (i < object.length && object.at[i] != '{')
		i++;
	for (i++; i < object.length && object.at[i] != '}';) {
		if (object.at[i] <= ' ' || object.at[i] == ',') {
			i++;
			continue;
		}
		size_t end = json_end(object, i);
		if (end < i + 2 || object.at[i] != '"')
			break; /* not an object */
		text key = {object.at + i + 1, end - i - 2};
		for (i = end; i < object.length && (object.at[i] <= ' ' || object.at[i] == ':');)
			i++;
		end = json_end(object, i);
		if (equal(key, name))
			return (text){object.at + i, end - i};
		i = end;
	}
	return (text){0, 0};
}

#define JSON(object, name) json(object, TEXT(name))

/* json_string returns a string without its quotes, escapes as they are, and an empty text
 * for anything else. Such a string can be put between quotes again. */
static inline text json_string(text value)
{
	if (value.length < 2 || value.at[0] != '"')
		return (text){"", 0};
	return (text){value.at + 1, value.length - 2};
}

#endif
