/* Runs a graph that mgn compiled ahead of time: a .mgnpkg file, on any OpenCL device.

     run_package digits.mgnpkg images=images.bin labels=labels.bin -o results.bin

   Inputs, and parameters that the package does not hold, come from files of their plain bytes; the
   results go to one file, one after the other. States begin with their first values. */
#define _POSIX_C_SOURCE 200809L
#include "mgnpkg.h"
#include "opencl.h"
#include "ptx.h"

static cl_device_id device;
static cl_context context;
static cl_command_queue queue;
static const Buffer *buffers;
static cl_mem *memory; /* for each buffer */

static void check(cl_int status, const char *what) {
    if (status != 0) fail("%s failed with OpenCL error %d", what, (int)status);
}

/* Device `number`, counted through all platforms. */
static void open_device(int number) {
    cl_platform_id platforms[16];
    cl_device_id devices[64];
    cl_uint platform_count = 0, count = 0;
    cl_int status;
    char name[256] = "";
    if (clGetPlatformIDs(16, platforms, &platform_count) != 0) platform_count = 0;
    for (cl_uint i = 0; i < platform_count && i < 16; i++) {
        cl_uint found = 0, room = 64 - count;
        cl_device_id *next = devices + count;
        if (room && !clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, room, next, &found))
            count += found < room ? found : room;
    }
    if (number < 0 || (cl_uint)number >= count) fail("there is no OpenCL device %d", number);
    device = devices[number];
    clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name - 1, name, NULL);
    fprintf(stderr, "%s on %s\n", text(header->graph), name);
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    check(status, "clCreateContext");
    queue = clCreateCommandQueue(context, device, 0, &status);
    check(status, "clCreateCommandQueue");
}

/* A kernel, from SPIR-V where the device takes it, else from OpenCL C. */
static cl_kernel build(const Kernel *kernel) {
    char versions[256] = "", log[4096] = "";
    cl_int status;
    cl_program program;
    clGetDeviceInfo(device, CL_DEVICE_IL_VERSION, sizeof versions - 1, versions, NULL);
    int binary = clCreateProgramWithIL && kernel->spirv.count && strstr(versions, "SPIR-V_1.");
    Table block = binary ? kernel->spirv : kernel->source;
    size_t size = (size_t)block.count;
    char *code = calloc(size + 1, 1);
    if (!code) fail("out of memory");
    memcpy(code, rows(block, 1), size);
    if (size == 0) fail("the device takes no SPIR-V, all that '%s' has", text(kernel->name));
    if (binary)
        program = clCreateProgramWithIL(context, code, size, &status);
    else
        program = clCreateProgramWithSource(context, 1, (const char **)&code, &size, &status);
    check(status, "creating a program");
    status = binary ? clBuildProgram(program, 1, &device, "", NULL, NULL)
                    : build_source(&program, context, device, code);
    if (status != 0) {
        clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
        fail("'%s' does not build: %s", text(kernel->name), log);
    }
    Name entry = binary ? kernel->spirv_entry : kernel->source_entry;
    cl_kernel built = clCreateKernel(program, text(entry), &status);
    check(status, "clCreateKernel");
    free(code);
    return built;
}

/* The bytes of `name=file` among the arguments; they have to be as many as the buffer's. */
static const void *given(const char *name, uint64_t bytes, int count, char **arguments) {
    size_t length = strlen(name);
    for (int i = 2; i < count; i++) {
        if (strncmp(arguments[i], name, length) != 0 || arguments[i][length] != '=') continue;
        uint64_t size;
        const void *data = map_file(arguments[i] + length + 1, &size);
        if (size != bytes)
            fail("%s has %llu bytes, not %llu", name, (unsigned long long)size,
                 (unsigned long long)bytes);
        return data;
    }
    fail("'%s' is missing: %s=FILE gives its %llu bytes", name, name, (unsigned long long)bytes);
    return NULL;
}

/* The arena, and for each planned buffer a part of it or a buffer of its own. */
static void create_buffers(int count, char **arguments) {
    cl_int status;
    size_t arena_bytes = header->arena ? (size_t)header->arena : 1;
    cl_mem arena = clCreateBuffer(context, CL_MEM_READ_WRITE, arena_bytes, NULL, &status);
    check(status, "allocating the arena");
    buffers = rows(header->buffers, sizeof(Buffer));
    memory = calloc((size_t)header->buffers.count + 1, sizeof *memory);
    if (!memory) fail("out of memory");
    for (uint64_t i = 0; i < header->buffers.count; i++) {
        const Buffer *buffer = &buffers[i];
        size_t bytes = (size_t)buffer->bytes, size = bytes ? bytes : 1;
        const void *data = NULL;
        if (buffer->bytes >> 48) fail("damaged: a buffer of more bytes than there are");
        if (buffer->kind == VIEW) {
            if (buffer->place > header->arena || bytes > header->arena - buffer->place)
                fail("damaged: a view outside of the arena");
            cl_buffer_region region = {(size_t)buffer->place, size};
            memory[i] = clCreateSubBuffer(arena, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION,
                                          &region, &status);
        } else {
            if (bytes && buffer->place)
                data = rows((Table){buffer->place, bytes}, 1);
            else if (bytes && buffer->kind == STATE && !(data = calloc(bytes, 1)))
                fail("out of memory");
            else if (bytes && buffer->kind != STATE && buffer->kind != DERIVED)
                data = given(text(buffer->name), bytes, count, arguments);
            cl_flags copied = data ? CL_MEM_COPY_HOST_PTR : 0;
            memory[i] = clCreateBuffer(context, CL_MEM_READ_WRITE | copied, size, (void *)data,
                                       &status);
        }
        check(status, "creating a buffer");
    }
}

static void launch(cl_kernel built, const Kernel *kernel, const Step *step,
                   const uint32_t *operands) {
    const Argument *wanted =
        part(header->arguments, sizeof(Argument), kernel->first_argument, kernel->arguments);
    size_t global[3], local[3];
    if (kernel->arguments != step->count) fail("damaged: a step without its operands");
    for (uint32_t j = 0; j < step->count; j++) {
        uint64_t bytes = buffers[operands[j]].bytes;
        if (wanted[j].element > 11 || bytes / SIZES[wanted[j].element] != wanted[j].count)
            fail("damaged: an operand of the wrong size");
        check(clSetKernelArg(built, j, sizeof(cl_mem), &memory[operands[j]]), "clSetKernelArg");
    }
    for (int j = 0; j < 3; j++) {
        global[j] = (size_t)kernel->global[j];
        local[j] = (size_t)kernel->local[j];
    }
    check(clEnqueueNDRangeKernel(queue, built, 3, NULL, global, local, 0, NULL, NULL),
          text(kernel->name));
}

/* Each step in order, on a queue that keeps the order. The first ones may prepare what derives from
   parameters: who runs a graph more than once leaves those out from the second run on. */
static void run_steps(void) {
    const Kernel *kernels = rows(header->kernels, sizeof(Kernel));
    const Step *steps = rows(header->steps, sizeof(Step));
    cl_kernel *built = calloc((size_t)header->kernels.count + 1, sizeof *built);
    if (!built) fail("out of memory");
    for (uint64_t i = 0; i < header->steps.count; i++) {
        const Step *step = &steps[i];
        const uint32_t *operands = part(header->operands, 4, step->first, step->count);
        for (uint32_t j = 0; j < step->count; j++)
            if (operands[j] >= header->buffers.count) fail("damaged: no buffer %u", operands[j]);
        if (step->kind == COPY) {
            if (step->count != 2 || buffers[operands[0]].bytes != buffers[operands[1]].bytes)
                fail("damaged: a copy between unequal buffers");
            size_t bytes = (size_t)buffers[operands[0]].bytes;
            if (bytes)
                check(clEnqueueCopyBuffer(queue, memory[operands[0]], memory[operands[1]], 0, 0,
                                          bytes, 0, NULL, NULL), "copying a buffer");
            continue;
        }
        if (step->kernel >= header->kernels.count) fail("damaged: no kernel %u", step->kernel);
        const Kernel *kernel = &kernels[step->kernel];
        if (!built[step->kernel]) built[step->kernel] = build(kernel);
        launch(built[step->kernel], kernel, step, operands);
    }
}

/* A line for each result, and all their bytes to a file. */
static void write_results(FILE *results) {
    const Output *outputs = rows(header->outputs, sizeof(Output));
    for (uint64_t i = 0; i < header->outputs.count; i++) {
        const Output *output = &outputs[i];
        const uint64_t *shape =
            part(header->dimensions, 8, output->first_dimension, output->dimensions);
        if (output->buffer >= header->buffers.count || output->element > 11)
            fail("damaged: no buffer %u", output->buffer);
        size_t bytes = (size_t)buffers[output->buffer].bytes;
        float *data = malloc(bytes + sizeof *data);
        if (!data) fail("out of memory");
        if (bytes)
            check(clEnqueueReadBuffer(queue, memory[output->buffer], 1, 0, bytes, data, 0, NULL,
                                      NULL), "reading a result");
        printf("%s: %s[", text(output->name), ELEMENTS[output->element]);
        for (uint32_t j = 0; j < output->dimensions; j++)
            printf("%s%llu", j ? ", " : "", (unsigned long long)shape[j]);
        printf("]");
        for (size_t j = 0; output->element == F32 && j < 4 && j < bytes / 4; j++)
            printf(" %g", (double)data[j]);
        printf("\n");
        if (results && fwrite(data, 1, bytes, results) != bytes) fail("cannot write the results");
        free(data);
    }
    if (results && fclose(results) != 0) fail("cannot write the results");
}

int main(int count, char **arguments) {
    const char *library = getenv("OPENCL_LIBRARY"), *number = getenv("OPENCL_DEVICE");
    FILE *results = NULL;
    if (count < 2) fail("usage: run_package FILE.mgnpkg [NAME=FILE ...] [-o FILE]");
    for (int i = 2; i + 1 < count; i++)
        if (!strcmp(arguments[i], "-o") && !(results = fopen(arguments[i + 1], "wb")))
            fail("cannot write '%s'", arguments[i + 1]);
    open_package(arguments[1]);
    if (!library) library = "libOpenCL.so.1";
    if (!load_opencl(library)) fail("no OpenCL in '%s' (OPENCL_LIBRARY)", library);
    open_device(number ? atoi(number) : 0);
    create_buffers(count, arguments);
    run_steps();
    write_results(results);
    return 0; /* leaving the process releases what OpenCL holds */
}
