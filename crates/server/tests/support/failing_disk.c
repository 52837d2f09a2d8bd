/* A library that is loaded before the C library. Calls fail as the word in the file DISK_WORD says:
 *   sync       each synchronisation of a file fails
 *   directory  each synchronisation of a directory fails
 *   hang       each synchronisation of a file takes as long as the word stands
 *   full       each write to a file fails
 *   full-data  each write to a file below a directory "data" fails
 *   rename     each renaming fails
 *   lost       each synchronisation succeeds and has no effect
 *
 * With DISK_JOURNAL each change of a file is appended to this file, for a model of what a power cut leaves. A record follows its
 * call, in the order of the calls, except that synchronisations, which may take long, cover the records before their begin.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { CREATE = 1, WRITE, TRUNCATE, RENAME, REMOVE, DIRECTORY, SYNC, SYNC_FAILED, SYNC_DIRECTORY };

/* A record of the journal, in the machine's byte order; two names and bytes follow. */
struct record {
    uint32_t kind, path_size, other_size, bytes_size;
    uint64_t inode;
    /* The offset of a write, the size of a truncation, the number of records that a synchronisation covers. */
    uint64_t value;
};

static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static int journal = -1;
static uint64_t record_count;

#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))

static ssize_t write_next(int file, const void *bytes, size_t size) {
    static ssize_t (*next)(int, const void *, size_t);
    if (!next) next = NEXT(ssize_t(*)(int, const void *, size_t), "write");
    return next(file, bytes, size);
}

static int open_next(const char *path, int flags, mode_t mode) {
    static int (*next)(const char *, int, ...);
    if (!next) next = NEXT(int (*)(const char *, int, ...), "open64");
    return next(path, flags, mode);
}

static int is_set(const char *word) {
    char found[16] = {0};
    const char *path = getenv("DISK_WORD");
    int file = path ? open_next(path, O_RDONLY | O_CLOEXEC, 0) : -1;
    if (file < 0) return 0;
    ssize_t size = read(file, found, sizeof found - 1);
    close(file);
    return size > 0 && strcmp(found, word) == 0;
}

static int has_type(int file, mode_t type) {
    struct stat status;
    return fstat(file, &status) == 0 && (status.st_mode & S_IFMT) == type;
}

static int is_below_data(int file) {
    char link[64], path[PATH_MAX] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    return readlink(link, path, sizeof path - 1) > 0 && strstr(path, "/data/");
}

static uint64_t inode_of(int file) {
    struct stat status;
    return fstat(file, &status) == 0 ? status.st_ino : 0;
}

/* Appends a record. The caller has locked `order`. */
static void note(enum kind kind, const char *path, const char *other, uint64_t inode, uint64_t value,
                 const void *bytes, size_t size) {
    const char *name = getenv("DISK_JOURNAL");
    if (!name) return;
    if (journal < 0) journal = open_next(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int before = errno;
    struct record record = {kind, (uint32_t)strlen(path), (uint32_t)strlen(other), (uint32_t)size, inode, value};
    struct iovec parts[] = {{&record, sizeof record},
                            {(void *)path, record.path_size},
                            {(void *)other, record.other_size},
                            {(void *)bytes, size}};
    if (writev(journal, parts, 4) != (ssize_t)(sizeof record + record.path_size + record.other_size + size)) abort();
    record_count++;
    errno = before;
}

static void absolute(const char *path, char *result) {
    char here[PATH_MAX] = "";
    if (path[0] == '/' || !getcwd(here, sizeof here)) here[0] = 0;
    snprintf(result, 2 * PATH_MAX, "%s%s%s", here, here[0] ? "/" : "", path);
}

static int synchronise(const char *name, int file) {
    int (*next)(int) = NEXT(int (*)(int), name);
    int is_directory = has_type(file, S_IFDIR);
    if (!is_directory && !has_type(file, S_IFREG)) return next(file);
    if (is_set("lost")) return 0;
    pthread_mutex_lock(&order);
    uint64_t covered = record_count;
    pthread_mutex_unlock(&order);
    while (!is_directory && is_set("hang")) usleep(1000);
    int fails = is_set(is_directory ? "directory" : "sync");
    int result = fails ? -1 : next(file);
    pthread_mutex_lock(&order);
    if (is_directory) {
        char link[64], path[PATH_MAX] = "";
        snprintf(link, sizeof link, "/proc/self/fd/%d", file);
        if (result == 0 && readlink(link, path, sizeof path - 1) > 0)
            note(SYNC_DIRECTORY, path, "", 0, covered, "", 0);
    } else {
        note(result == 0 ? SYNC : SYNC_FAILED, "", "", inode_of(file), covered, "", 0);
    }
    pthread_mutex_unlock(&order);
    if (fails) errno = EIO;
    return result;
}

int fsync(int file) { return synchronise("fsync", file); }

int fdatasync(int file) { return synchronise("fdatasync", file); }

ssize_t write(int file, const void *bytes, size_t size) {
    if (size == 0 || !has_type(file, S_IFREG)) return write_next(file, bytes, size);
    if (is_set("full") || (is_set("full-data") && is_below_data(file))) {
        errno = ENOSPC;
        return -1;
    }
    pthread_mutex_lock(&order);
    ssize_t written = write_next(file, bytes, size);
    if (written > 0) {
        off_t end = lseek(file, 0, SEEK_CUR);
        note(WRITE, "", "", inode_of(file), (uint64_t)(end - written), bytes, (size_t)written);
    }
    pthread_mutex_unlock(&order);
    return written;
}

static int truncate_file(const char *name, int file, off_t size) {
    pthread_mutex_lock(&order);
    int result = NEXT(int (*)(int, off_t), name)(file, size);
    if (result == 0) note(TRUNCATE, "", "", inode_of(file), (uint64_t)size, "", 0);
    pthread_mutex_unlock(&order);
    return result;
}

int ftruncate(int file, off_t size) { return truncate_file("ftruncate", file, size); }

int ftruncate64(int file, off_t size) { return truncate_file("ftruncate64", file, size); }

static int open_noted(const char *path, int flags, mode_t mode) {
    if (!(flags & (O_CREAT | O_TRUNC))) return open_next(path, flags, mode);
    char name[2 * PATH_MAX];
    pthread_mutex_lock(&order);
    int existed = access(path, F_OK) == 0;
    int file = open_next(path, flags, mode);
    if (file >= 0 && has_type(file, S_IFREG)) {
        absolute(path, name);
        if (!existed) note(CREATE, name, "", inode_of(file), 0, "", 0);
        else if (flags & O_TRUNC) note(TRUNCATE, "", "", inode_of(file), 0, "", 0);
    }
    pthread_mutex_unlock(&order);
    return file;
}

#define OPEN(name)                                  \
    int name(const char *path, int flags, ...) {    \
        va_list rest;                               \
        va_start(rest, flags);                      \
        mode_t mode = va_arg(rest, mode_t);         \
        va_end(rest);                               \
        return open_noted(path, flags, mode);       \
    }

OPEN(open)
OPEN(open64)

int rename(const char *from, const char *to) {
    if (is_set("rename")) {
        errno = EIO;
        return -1;
    }
    char names[2][2 * PATH_MAX];
    pthread_mutex_lock(&order);
    int result = NEXT(int (*)(const char *, const char *), "rename")(from, to);
    if (result == 0) {
        absolute(from, names[0]);
        absolute(to, names[1]);
        note(RENAME, names[0], names[1], 0, 0, "", 0);
    }
    pthread_mutex_unlock(&order);
    return result;
}

static int change_name(const char *name, enum kind kind, const char *path, mode_t mode) {
    char full[2 * PATH_MAX];
    pthread_mutex_lock(&order);
    int result = NEXT(int (*)(const char *, mode_t), name)(path, mode);
    if (result == 0) {
        absolute(path, full);
        note(kind, full, "", 0, 0, "", 0);
    }
    pthread_mutex_unlock(&order);
    return result;
}

int unlink(const char *path) { return change_name("unlink", REMOVE, path, 0); }

int mkdir(const char *path, mode_t mode) { return change_name("mkdir", DIRECTORY, path, mode); }
