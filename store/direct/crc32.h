/* CRC-32 with zlib's polynomial: by carry-less multiplication where the processor has it, else eight bytes a
 * step by tables. And what a put asks of the processor besides: the store that makes a record visible, and
 * registers that are fit for use.
 *
 * It is C because Cython has no words for instructions of a processor. Tests compare it with zlib.
 * Source of the folding constants: Gopal and others, "Fast CRC Computation for Generic Polynomials Using
 * PCLMULQDQ Instruction", Intel 2009. They are powers of x modulo the polynomial, bits reversed.
 */
#ifndef MQSTORE_CRC32_H
#define MQSTORE_CRC32_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "written for processors that store the least significant byte first"
#endif

static uint32_t crc32_tables[8][256];
static int crc32_folds = 0;
static int has_wide_registers = 0;

/* Called once, when the module is loaded. */
static void crc32_prepare(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ ((crc & 1) ? 0xEDB88320u : 0u);
        crc32_tables[0][byte] = crc;
    }
    for (int row = 1; row < 8; row++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = crc32_tables[row - 1][byte];
            crc32_tables[row][byte] = (before >> 8) ^ crc32_tables[0][before & 0xFF];
        }
#if defined(__x86_64__) && defined(__GNUC__)
    crc32_folds = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    has_wide_registers = __builtin_cpu_supports("avx");
#endif
}

/* state: the CRC with all bits inverted, before and after. */
static uint32_t crc32_by_tables(const uint8_t *data, size_t size, uint32_t state) {
    for (; size >= 8; data += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        uint32_t low = state ^ (uint32_t)word, high = (uint32_t)(word >> 32);
        state = crc32_tables[7][low & 0xFF] ^ crc32_tables[6][(low >> 8) & 0xFF]
              ^ crc32_tables[5][(low >> 16) & 0xFF] ^ crc32_tables[4][low >> 24]
              ^ crc32_tables[3][high & 0xFF] ^ crc32_tables[2][(high >> 8) & 0xFF]
              ^ crc32_tables[1][(high >> 16) & 0xFF] ^ crc32_tables[0][high >> 24];
    }
    for (; size; data++, size--) state = crc32_tables[0][(state ^ *data) & 0xFF] ^ (state >> 8);
    return state;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

__attribute__((target("pclmul,sse4.1")))
static inline __m128i crc32_fold(__m128i value, __m128i by, __m128i next) {
    __m128i low = _mm_clmulepi64_si128(value, by, 0x00), high = _mm_clmulepi64_si128(value, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* size: 16 or more, a multiple of 16. */
__attribute__((target("pclmul,sse4.1")))
static uint32_t crc32_by_folding(const uint8_t *data, size_t size, uint32_t state) {
    const __m128i by_512 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
    const __m128i by_128 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
    const __m128i by_64 = _mm_set_epi64x(0, 0x0163cd6124);
    const __m128i barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);
    const __m128i *at = (const __m128i *)data;
    __m128i one = _mm_xor_si128(_mm_loadu_si128(at), _mm_cvtsi32_si128((int)state)), two;
    if (size >= 64) {
        __m128i three = _mm_loadu_si128(at + 2), four = _mm_loadu_si128(at + 3);
        two = _mm_loadu_si128(at + 1);
        for (at += 4, size -= 64; size >= 64; at += 4, size -= 64) {
            one = crc32_fold(one, by_512, _mm_loadu_si128(at));
            two = crc32_fold(two, by_512, _mm_loadu_si128(at + 1));
            three = crc32_fold(three, by_512, _mm_loadu_si128(at + 2));
            four = crc32_fold(four, by_512, _mm_loadu_si128(at + 3));
        }
        one = crc32_fold(one, by_128, two);
        one = crc32_fold(one, by_128, three);
        one = crc32_fold(one, by_128, four);
    } else {
        at++, size -= 16;
    }
    for (; size >= 16; at++, size -= 16) one = crc32_fold(one, by_128, _mm_loadu_si128(at));
    /* 128 bits to 64, to 32. */
    const __m128i low_halves = _mm_setr_epi32(~0, 0, ~0, 0);
    two = _mm_clmulepi64_si128(one, by_128, 0x10);
    one = _mm_xor_si128(_mm_srli_si128(one, 8), two);
    two = _mm_srli_si128(one, 4);
    one = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(one, low_halves), by_64, 0x00), two);
    two = _mm_clmulepi64_si128(_mm_and_si128(one, low_halves), barrett, 0x10);
    two = _mm_clmulepi64_si128(_mm_and_si128(two, low_halves), barrett, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(one, two), 1);
}
#endif

/* The upper halves of the wide registers, in which no function keeps anything when it calls another.
 *
 * ISA-L's crc32 leaves them full, and nothing empties them afterwards. Then each step from the instructions of
 * the C library to those of the interpreter, and back, costs this thread hundreds of cycles on some processors,
 * several times a put. */
#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>

__attribute__((target("avx")))
static void empty_upper_halves(void) {
    _mm256_zeroupper();
}

static void empty_wide_registers(void) {
    if (has_wide_registers) empty_upper_halves();
}

/* For tests: 1 if they are full, 0 if not, -1 if this processor does not tell. */
static int are_wide_registers_full(void) {
    unsigned int eax, ebx, ecx, edx, in_use;
    if (!has_wide_registers || !__get_cpuid_count(13, 1, &eax, &ebx, &ecx, &edx) || !(eax & 4)) return -1;
    __asm__ volatile("xgetbv" : "=a"(in_use), "=d"(edx) : "c"(1));
    return (in_use & 4) != 0;
}
#else
static void empty_wide_registers(void) {}
static int are_wide_registers_full(void) { return -1; }
#endif

/* As zlib's crc32. */
static uint32_t crc32_of(const uint8_t *data, size_t size, uint32_t crc) {
    uint32_t state = ~crc;
#if defined(__x86_64__) && defined(__GNUC__)
    if (crc32_folds && size >= 16) {
        size_t much = size & ~(size_t)15;
        state = crc32_by_folding(data, much, state);
        data += much;
        size -= much;
    }
#endif
    return ~crc32_by_tables(data, size, state);
}

/* Copy the first eight bytes of a record, behind all the others: a reader sees all of it or nothing. */
static void publish_first_bytes(uint8_t *target, const uint8_t *source) {
    uint64_t word;
    memcpy(&word, source, 8);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    if (((uintptr_t)target & 7) == 0) __atomic_store_n((uint64_t *)target, word, __ATOMIC_RELAXED);
    else memcpy(target, &word, 8);
}
#endif
