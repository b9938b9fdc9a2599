/* Chance that is the same in every process: what hash maps and tokio's order of wakers draw from. Loaded before the C library
 * into the processes of these tests, and into nothing else. */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

ssize_t getrandom(void *buffer, size_t length, unsigned int flags) {
    static uint64_t state = 1;
    uint8_t *bytes = buffer;
    (void)flags;
    for (size_t i = 0; i < length; i++) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        bytes[i] = (uint8_t)(state >> 56);
    }
    return (ssize_t)length;
}
