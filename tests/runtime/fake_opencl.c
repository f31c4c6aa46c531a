/* An OpenCL that runs nothing: it reads every byte that it is handed and refuses sizes that do not
   fit, so that a reader which believes a damaged file is found out by a signal. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 24 };
typedef struct { size_t size; } Memory;
static volatile unsigned char sink;
static int thing;

static void touch(const void *data, size_t size) {
    for (size_t i = 0; i < size; i++) sink ^= ((const unsigned char *)data)[i];
}

static void *created(int32_t *status, int32_t code, size_t size) {
    *status = code;
    if (code != 0) return NULL;
    Memory *memory = malloc(sizeof *memory);
    memory->size = size;
    return memory;
}

int32_t clGetPlatformIDs(uint32_t room, void **found, uint32_t *count) {
    if (room) found[0] = &thing;
    *count = 1;
    return 0;
}
int32_t clGetDeviceIDs(void *platform, uint64_t type, uint32_t room, void **found, uint32_t *count) {
    (void)platform, (void)type;
    if (room) found[0] = &thing;
    *count = 1;
    return 0;
}
int32_t clGetDeviceInfo(void *device, uint32_t what, size_t room, char *value, size_t *size) {
    (void)device, (void)size;
    strncpy(value, what == 0x105B && getenv("FAKE_SPIRV") ? "SPIR-V_1.0" : "a fake", room);
    return 0;
}
void *clCreateContext(const void *p, uint32_t n, const void *d, void *f, void *u, int32_t *status) {
    (void)p, (void)n, (void)d, (void)f, (void)u;
    return created(status, 0, 0);
}
void *clCreateCommandQueue(void *context, void *device, uint64_t flags, int32_t *status) {
    (void)context, (void)device, (void)flags;
    return created(status, 0, 0);
}
void *clCreateBuffer(void *context, uint64_t flags, size_t size, void *host, int32_t *status) {
    (void)context;
    if (size > MOST) return created(status, -61, 0);
    if (flags & 32) touch(host, size);
    return created(status, 0, size);
}
void *clCreateSubBuffer(Memory *m, uint64_t f, uint32_t k, const size_t *region, int32_t *status) {
    (void)f, (void)k;
    return created(status, region[0] + region[1] > m->size ? -61 : 0, region[1]);
}
void *clCreateProgramWithSource(void *context, uint32_t count, const char **texts,
                                const size_t *sizes, int32_t *status) {
    (void)context;
    for (uint32_t i = 0; i < count; i++) touch(texts[i], sizes[i]);
    return created(status, 0, 0);
}
void *clCreateProgramWithIL(void *context, const void *code, size_t size, int32_t *status) {
    (void)context;
    touch(code, size);
    return created(status, 0, 0);
}
static const char *made_ptx(void) {
    const char *text = getenv("FAKE_PTX");
    return text ? text : "";
}
int32_t clGetProgramInfo(void *program, uint32_t what, size_t size, void *value, size_t *used) {
    (void)program, (void)size, (void)used;
    if (what == 0x1165) *(size_t *)value = strlen(made_ptx());
    if (what == 0x1166) memcpy(*(char **)value, made_ptx(), strlen(made_ptx()));
    return 0;
}
void *clCreateProgramWithBinary(void *context, uint32_t count, const void *devices,
                                const size_t *sizes, const char **binaries, int32_t *statuses,
                                int32_t *status) {
    (void)context, (void)devices, (void)statuses;
    for (uint32_t i = 0; i < count; i++) fwrite(binaries[i], 1, sizes[i] - 1, stderr);
    return created(status, 0, 0);
}
int32_t clBuildProgram(void *p, uint32_t n, const void *d, const char *o, void *f, void *u) {
    (void)p, (void)n, (void)d, (void)o, (void)f, (void)u;
    return 0;
}
int32_t clGetProgramBuildInfo(void *p, void *d, uint32_t w, size_t n, void *v, size_t *s) {
    (void)p, (void)d, (void)w, (void)n, (void)v, (void)s;
    return 0;
}
void *clCreateKernel(void *program, const char *name, int32_t *status) {
    (void)program;
    touch(name, strlen(name));
    return created(status, 0, 0);
}
int32_t clSetKernelArg(void *kernel, uint32_t number, size_t size, Memory *const *memory) {
    (void)kernel, (void)number, (void)size;
    return (*memory)->size ? 0 : -38;
}
int32_t clEnqueueNDRangeKernel(void *q, void *k, uint32_t n, const size_t *o, const size_t *global,
                               const size_t *local, uint32_t c, const void *w, void *e) {
    (void)q, (void)k, (void)o, (void)c, (void)w, (void)e;
    for (uint32_t i = 0; i < n; i++)
        if (!local[i] || global[i] % local[i]) return -54;
    return 0;
}
int32_t clEnqueueCopyBuffer(void *q, Memory *from, Memory *to, size_t start, size_t offset,
                            size_t size, uint32_t n, const void *w, void *e) {
    (void)q, (void)n, (void)w, (void)e;
    return start + size > from->size || offset + size > to->size ? -30 : 0;
}
int32_t clEnqueueReadBuffer(void *q, Memory *from, uint32_t b, size_t start, size_t size, void *to,
                            uint32_t n, const void *w, void *e) {
    (void)q, (void)b, (void)n, (void)w, (void)e;
    if (start + size > from->size) return -30;
    memset(to, 0, size);
    return 0;
}
