/* The part of OpenCL that run_package.c uses, looked up in a library when the program runs, so that
   neither headers nor a library are needed to build it. Names and values are those of <CL/cl.h>. */
#ifndef MGN_EMBED_OPENCL_H
#define MGN_EMBED_OPENCL_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint64_t cl_flags;
typedef struct _cl_platform_id *cl_platform_id;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_context *cl_context;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_program *cl_program;
typedef struct _cl_kernel *cl_kernel;
typedef struct { size_t origin, size; } cl_buffer_region;

enum {
    CL_MEM_READ_WRITE = 1,
    CL_MEM_COPY_HOST_PTR = 32,
    CL_DEVICE_NAME = 0x102B,
    CL_DEVICE_IL_VERSION = 0x105B,
    CL_PROGRAM_BINARY_SIZES = 0x1165,
    CL_PROGRAM_BINARIES = 0x1166,
    CL_PROGRAM_BUILD_LOG = 0x1183,
    CL_BUFFER_CREATE_TYPE_REGION = 0x1220
};
#define CL_DEVICE_TYPE_ALL 0xFFFFFFFFu

/* F(result, name, parameters) */
#define OPENCL_FUNCTIONS(F)                                                                        \
    F(cl_int, clGetPlatformIDs, (cl_uint, cl_platform_id *, cl_uint *))                            \
    F(cl_int, clGetDeviceIDs, (cl_platform_id, cl_flags, cl_uint, cl_device_id *, cl_uint *))      \
    F(cl_int, clGetDeviceInfo, (cl_device_id, cl_uint, size_t, void *, size_t *))                  \
    F(cl_context, clCreateContext,                                                                 \
      (const intptr_t *, cl_uint, const cl_device_id *, void *, void *, cl_int *))                 \
    F(cl_command_queue, clCreateCommandQueue, (cl_context, cl_device_id, cl_flags, cl_int *))      \
    F(cl_mem, clCreateBuffer, (cl_context, cl_flags, size_t, void *, cl_int *))                    \
    F(cl_mem, clCreateSubBuffer, (cl_mem, cl_flags, cl_uint, const void *, cl_int *))              \
    F(cl_program, clCreateProgramWithSource,                                                       \
      (cl_context, cl_uint, const char **, const size_t *, cl_int *))                              \
    F(cl_program, clCreateProgramWithIL, (cl_context, const void *, size_t, cl_int *))             \
    F(cl_program, clCreateProgramWithBinary,                                                       \
      (cl_context, cl_uint, const cl_device_id *, const size_t *, const unsigned char **,          \
       cl_int *, cl_int *))                                                                        \
    F(cl_int, clGetProgramInfo, (cl_program, cl_uint, size_t, void *, size_t *))                   \
    F(cl_int, clBuildProgram,                                                                      \
      (cl_program, cl_uint, const cl_device_id *, const char *, void *, void *))                   \
    F(cl_int, clGetProgramBuildInfo,                                                               \
      (cl_program, cl_device_id, cl_uint, size_t, void *, size_t *))                               \
    F(cl_kernel, clCreateKernel, (cl_program, const char *, cl_int *))                             \
    F(cl_int, clSetKernelArg, (cl_kernel, cl_uint, size_t, const void *))                          \
    F(cl_int, clEnqueueNDRangeKernel,                                                              \
      (cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *,       \
       cl_uint, const void *, void *))                                                             \
    F(cl_int, clEnqueueCopyBuffer,                                                                 \
      (cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const void *, void *))   \
    F(cl_int, clEnqueueReadBuffer,                                                                 \
      (cl_command_queue, cl_mem, cl_uint, size_t, size_t, void *, cl_uint, const void *, void *))

#define DECLARE(result, name, parameters) static result(*name) parameters;
OPENCL_FUNCTIONS(DECLARE)

/* Fills in the functions; 0 where the library is not there or lacks one. Only clCreateProgramWithIL
   may be NULL afterwards: libraries older than OpenCL 2.1 do not have it. */
static int load_opencl(const char *library) {
    int missing = 0;
    void *handle = dlopen(library, RTLD_NOW);
    if (!handle) return 0;
#define LOOK_UP(result, name, parameters)                                                          \
    *(void **)&name = dlsym(handle, #name);                                                        \
    missing += name == NULL;
    OPENCL_FUNCTIONS(LOOK_UP)
    return missing == (clCreateProgramWithIL == NULL);
}

#endif
