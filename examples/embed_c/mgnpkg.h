/* A .mgnpkg file, mapped into memory and read in place. runtime/package_format.py describes the
   format. Rows are reached through `rows`, `part` and `text`, which look at the file's size first.
   For little-endian machines. */
#ifndef MGN_EMBED_MGNPKG_H
#define MGN_EMBED_MGNPKG_H

#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct { uint32_t start, length; } Name;
typedef struct { uint64_t place, count; } Table;
typedef struct {
    char magic[8];
    uint32_t version, checksum;
    uint64_t size;
    Name graph, device;
    uint64_t arena, tensor_bytes, lower_bound;
    Table strings, dimensions, kernels, arguments, buffers, operands, steps, outputs;
} Header;
typedef struct {
    Name name, spirv_entry, source_entry;
    uint64_t global[3], local[3];
    Table spirv, source; /* their counts are bytes */
    uint64_t local_memory;
    uint32_t first_argument, arguments;
} Kernel;
typedef struct { uint32_t access, element; uint64_t count; } Argument;
typedef struct {
    uint32_t kind, element;
    Name name;
    uint32_t first_dimension, dimensions;
    uint64_t place, bytes;
} Buffer;
typedef struct { uint32_t kind, kernel, first, count; } Step;
typedef struct { Name name; uint32_t buffer, element, first_dimension, dimensions; } Output;

enum { INPUT, PARAM, CONSTANT, VIEW, DERIVED, STATE };
enum { LAUNCH, COPY, PREPARE };
enum { F64, F32 };
static const char *const ELEMENTS[] = {"f64", "f32", "f16", "bf16", "i64", "i32",
                                       "i16", "i8",  "u32", "u16",  "u8",  "bool"};
static const uint64_t SIZES[] = {8, 4, 2, 2, 8, 4, 2, 1, 4, 2, 1, 1};

static const unsigned char *file;
static uint64_t file_size;
static const Header *header;

static void fail(const char *format, ...) {
    va_list values;
    va_start(values, format);
    fputs("run_package: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    exit(1);
}

static const unsigned char *map_file(const char *path, uint64_t *size) {
    struct stat status;
    int handle = open(path, O_RDONLY);
    if (handle < 0 || fstat(handle, &status) != 0) fail("cannot open '%s'", path);
    *size = (uint64_t)status.st_size;
    if (*size == 0) return (const unsigned char *)"";
    void *data = mmap(NULL, (size_t)*size, PROT_READ, MAP_PRIVATE, handle, 0);
    if (data == MAP_FAILED) fail("cannot read '%s'", path);
    close(handle);
    return data;
}

/* `count` rows at a place, which have to lie in the file; any row is read at a multiple of 8. */
static const void *rows(Table table, uint64_t row_size) {
    if (table.place % 8 || table.place > file_size ||
        table.count > (file_size - table.place) / row_size)
        fail("damaged: %llu rows at byte %llu", (unsigned long long)table.count,
             (unsigned long long)table.place);
    return file + table.place;
}

/* Rows `first` to `first + count` of a table. */
static const void *part(Table table, uint64_t row_size, uint64_t first, uint64_t count) {
    const unsigned char *start = rows(table, row_size);
    if (first > table.count || count > table.count - first)
        fail("damaged: no row %llu", (unsigned long long)first);
    return start + first * row_size;
}

static const char *text(Name name) {
    const char *start = part(header->strings, 1, name.start, (uint64_t)name.length + 1);
    if (memchr(start, 0, (size_t)name.length + 1) != start + name.length)
        fail("damaged: a name without its end");
    return start;
}

static uint32_t crc32(const unsigned char *data, uint64_t size) {
    uint32_t table[256], crc = 0xFFFFFFFFu;
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xEDB88320u : 0);
    }
    for (uint64_t i = 0; i < size; i++) crc = crc >> 8 ^ table[(crc ^ data[i]) & 255];
    return ~crc;
}

static void open_package(const char *path) {
    file = map_file(path, &file_size);
    header = (const Header *)file;
    if (file_size < sizeof(Header) || memcmp(header->magic, "\x89MGNPKG\n", 8) != 0)
        fail("'%s' is no mgn package", path);
    if (header->version != 3) fail("'%s' has another version than 3", path);
    if (header->size != file_size || crc32(file + 16, file_size - 16) != header->checksum)
        fail("'%s' is damaged", path);
}

#endif
