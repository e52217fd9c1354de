"""verl on a machine without an accelerator: FSDP2 over gloo, vLLM's CPU build, logical GPUs in Ray.

`recipe.cpu.detect` decides whether this package is used, `recipe.cpu.environment` names it to every process, and
`recipe.cpu.plugin` is the module that verl then imports (`VERL_USE_EXTERNAL_MODULES`). Nothing here runs, or is
imported, where an accelerator is visible.
"""
