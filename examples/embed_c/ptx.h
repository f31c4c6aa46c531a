/* Programs whose PTX is to be completed: kernels for NVIDIA's newest matrix units, which OpenCL C
   cannot name. Their first lines are directives; mgn/runtime/ptx.py describes them and does what is
   done here: it sets the target and the size of local memory, and makes instructions of comments. */
#ifndef MGN_EMBED_PTX_H
#define MGN_EMBED_PTX_H

#include "mgnpkg.h"
#include "opencl.h"

enum { NAME_LENGTH = 128, ROOM = 4096 };
static size_t room; /* bytes that directives may still add */

/* Writes a line of PTX as the directives of a program want it, and returns how far it got. */
static char *write_line(char *out, const char *line, size_t length, const char *directives) {
    static const char comment[] = "// @ptx ", target[] = ".target ";
    const char *start = line + strspn(line, " \t"), *end = line + length;
    char name[NAME_LENGTH], declared[NAME_LENGTH + 24], wanted[NAME_LENGTH + 24];
    unsigned long before, after;
    if (strncmp(start, comment, sizeof comment - 1) == 0) line = start + sizeof comment - 1;
    for (const char *at = directives; (at = strstr(at, "\n// ptx ")) != NULL; at++) {
        const char *found = NULL;
        if (sscanf(at, "\n// ptx target %31s", wanted) == 1) {
            if (strncmp(line, target, sizeof target - 1) != 0) continue;
            found = line + sizeof target - 1;
            size_t word = strcspn(found, ", \t\n");
            snprintf(declared, sizeof declared, "%.*s", (int)(word < 31 ? word : 31), found);
        } else if (sscanf(at, "\n// ptx shared %127s %lu %lu", name, &before, &after) == 3) {
            snprintf(declared, sizeof declared, "%s[%lu]", name, before);
            snprintf(wanted, sizeof wanted, "%s[%lu]", name, after);
            found = strncmp(start, ".shared ", 8) == 0 ? strstr(line, declared) : NULL;
        }
        if (found == NULL || found >= end) continue;
        if (strlen(wanted) > room) fail("damaged: too many directives");
        room -= strlen(wanted);
        out += sprintf(out, "%.*s%s", (int)(found - line), line, wanted);
        line = found + strlen(declared);
    }
    memcpy(out, line, (size_t)(end - line));
    return out + (end - line);
}

/* The PTX of a program, completed. */
static char *completed(const char *source, const char *ptx) {
    char *text = malloc(strlen(ptx) + ROOM), *out = text;
    if (!text) fail("out of memory");
    room = ROOM - 1;
    for (size_t length; *ptx; ptx += length) {
        length = strcspn(ptx, "\n") + (strchr(ptx, '\n') != NULL);
        out = write_line(out, ptx, length, source);
    }
    *out = 0;
    return text;
}

/* Builds a program from its source, in two steps where its PTX is to be completed. */
static cl_int build_source(cl_program *program, cl_context context, cl_device_id device,
                           const char *source) {
    cl_int status = 0;
    size_t size = 0;
    if (strncmp(source, "#ifndef MGN_PTX", 15) != 0)
        return clBuildProgram(*program, 1, &device, "", NULL, NULL);
    status = clBuildProgram(*program, 1, &device, "-DMGN_PTX", NULL, NULL);
    if (status == 0)
        status = clGetProgramInfo(*program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL);
    if (status != 0) return status;
    char *ptx = calloc(size + 1, 1);
    if (!ptx) fail("out of memory");
    status = clGetProgramInfo(*program, CL_PROGRAM_BINARIES, sizeof ptx, &ptx, NULL);
    if (status != 0) return status;
    char *text = completed(source, ptx);
    const unsigned char *binary = (const unsigned char *)text;
    size = strlen(text) + 1;
    *program = clCreateProgramWithBinary(context, 1, &device, &size, &binary, NULL, &status);
    if (status == 0) status = clBuildProgram(*program, 1, &device, "", NULL, NULL);
    free(ptx);
    free(text);
    return status;
}

#endif
