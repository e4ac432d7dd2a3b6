/* Preloaded: once FAULT_BYTES were written to files whose path holds FAULT_PATH, writes to them fail with FAULT_ERRNO. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static long written;

static int concerned(int fd) {
    const char *path = getenv("FAULT_PATH");
    char link[64], name[4096];
    if (!path || !*path) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    if (length < 0) return 0;
    name[length] = 0;
    return strstr(name, path) != 0;
}

static int refused(int fd, size_t count) {
    if (!concerned(fd)) return 0;
    const char *limit = getenv("FAULT_BYTES"), *why = getenv("FAULT_ERRNO");
    if (written + (long)count <= (limit ? atol(limit) : 0)) {
        written += (long)count;
        return 0;
    }
    errno = why ? atoi(why) : ENOSPC;
    return 1;
}

#define REAL(type, name, ...) static type (*real)(__VA_ARGS__); if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *data, size_t count) {
    REAL(ssize_t, write, int, const void *, size_t);
    return refused(fd, count) ? -1 : real(fd, data, count);
}

ssize_t pwrite64(int fd, const void *data, size_t count, off64_t at) {
    REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
    return refused(fd, count) ? -1 : real(fd, data, count, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, writev, int, const struct iovec *, int);
    size_t total = 0;
    for (int i = 0; i < count; i++) total += parts[i].iov_len;
    return refused(fd, total) ? -1 : real(fd, parts, count);
}

int fsync(int fd) {
    REAL(int, fsync, int);
    return refused(fd, 0) ? -1 : real(fd);
}
