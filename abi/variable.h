/* variable: the kinds of variables that a program has, shared by compiler, artifact and runtime. */
#ifndef DT_ABI_VARIABLE_H
#define DT_ABI_VARIABLE_H

typedef enum dt_variable_kind {
    DT_VARIABLE_PARAMETER, /* what training changes: model.safetensors */
    DT_VARIABLE_STATE,     /* what a layer keeps: model.safetensors */
    DT_VARIABLE_SLOT       /* what an optimizer keeps: optimizer.safetensors */
} dt_variable_kind;

#endif
