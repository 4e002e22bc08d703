/* The leaf in C, without a library: it binds the host by hand and reads just as much JSON
 * as it needs, which is what small languages are fast for. */
#include <stdint.h>

#define ENV(name) __attribute__((import_module("extism:host/env"), import_name(#name)))
#define EXPORT(name) __attribute__((export_name(#name)))
ENV(input_length) extern uint64_t input_length(void);
ENV(input_offset) extern uint64_t input_offset(void);
ENV(length) extern uint64_t length(uint64_t);
ENV(alloc) extern uint64_t alloc(uint64_t);
ENV(load_u64) extern uint64_t load_u64(uint64_t);
ENV(load_u8) extern uint32_t load_u8(uint64_t);
ENV(store_u64) extern void store_u64(uint64_t, uint64_t);
ENV(store_u8) extern void store_u8(uint64_t, uint32_t);
ENV(output_set) extern void output_set(uint64_t, uint64_t);
__attribute__((import_module("extism:host/user"), import_name("kube_get"))) extern uint64_t kube_get(uint64_t);

static char input[1 << 20], response[1 << 16], output[1 << 16];
static uint64_t used;

static uint64_t load(char *to, uint64_t size, uint64_t offset, uint64_t n)
{
	uint64_t i = 0;
	if (n + 8 > size)
		__builtin_trap();
	for (; i + 8 <= n; i += 8)
		*(uint64_t *)(to + i) = load_u64(offset + i);
	for (; i < n; i++)
		to[i] = (char)load_u8(offset + i);
	to[n] = 0;
	return n;
}

static uint64_t store(const char *from, uint64_t n)
{
	uint64_t offset = alloc(n), i = 0;
	for (; i + 8 <= n; i += 8) {
		uint64_t word;
		__builtin_memcpy(&word, from + i, 8);
		store_u64(offset + i, word);
	}
	for (; i < n; i++)
		store_u8(offset + i, (uint8_t)from[i]);
	return offset;
}

static void put(const char *text)
{
	while (*text)
		output[used++] = *text++;
}

static void decimal(int64_t n)
{
	char digits[24];
	int i = 24;
	if (n < 0) {
		output[used++] = '-';
		n = -n;
	}
	do
		digits[--i] = (char)('0' + n % 10);
	while (n /= 10);
	while (i < 24)
		output[used++] = digits[i++];
}

/* skip returns where the value ends that begins at p. */
static const char *skip(const char *p)
{
	int depth = 0;
	do {
		if (*p == '"') {
			for (p++; *p && *p != '"'; p++)
				if (*p == '\\')
					p++;
		} else if (*p == '{' || *p == '[') {
			depth++;
		} else if (*p == '}' || *p == ']') {
			depth--;
		} else if (depth == 0 && (p[1] == ',' || p[1] == '}' || p[1] == ']')) {
			return p + 1;
		}
		if (!*p++)
			return p - 1;
	} while (depth > 0 || p[-1] != '}' && p[-1] != ']' && p[-1] != '"');
	return p;
}

/* get returns the value of a field of the object at p, or 0. The host writes no spaces. */
static const char *get(const char *p, const char *name)
{
	if (!p || *p != '{')
		return 0;
	for (p++; *p == '"' || *p == ',';) {
		if (*p == ',')
			p++;
		const char *key = p + 1, *want = name;
		while (*want && *key == *want)
			key++, want++;
		int same = !*want && *key == '"';
		p = skip(p);
		if (*p != ':')
			return 0;
		if (same)
			return p + 1;
		p = skip(p + 1);
	}
	return 0;
}

static int64_t number(const char *p)
{
	int64_t n = 0;
	while (p && *p >= '0' && *p <= '9')
		n = n * 10 + (*p++ - '0');
	return n;
}

EXPORT(describe) int32_t describe(void)
{
	put("{\"abi\":1,\"name\":\"leaf\",\"version\":\"1.0.0\",\"capabilities\":[\"kube_get\"]}");
	output_set(store(output, used), used);
	return 0;
}

EXPORT(provision) int32_t provision(void)
{
	load(input, sizeof(input), input_offset(), input_length());
	const char *config = get(input, "config"), *item = get(config, "items");
	int64_t calls = number(get(config, "calls")), replicas = 0;
	for (item = item && item[1] == '{' ? item + 1 : 0; item; item = *item == ',' ? item + 1 : 0) {
		const char *enabled = get(item, "enabled");
		if (enabled && *enabled == 't')
			replicas += number(get(item, "replicas"));
		item = skip(item);
	}
	used = 0;
	put("{\"facts\":{\"addresses\":[");
	for (int64_t i = 0; i < calls; i++) {
		uint64_t before = used;
		put("{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"namespace\":\"platform\",\"name\":\"peer-");
		decimal(i);
		put("\"}");
		uint64_t answer = kube_get(store(output + before, used - before));
		used = before;
		load(response, sizeof(response), answer, length(answer));
		const char *address = get(get(get(get(response, "result"), "object"), "data"), "address");
		if (!address)
			return 2;
		if (i > 0)
			put(",");
		for (const char *end = skip(address); address < end; address++)
			output[used++] = *address;
	}
	put("],\"replicas\":");
	decimal(replicas);
	put("},\"state\":{\"count\":");
	decimal(number(get(get(input, "state"), "count")) + 1);
	put("}}");
	output_set(store(output, used), used);
	return 0;
}

EXPORT(deprovision) int32_t deprovision(void) { return 0; }
