"""verl's V1 task runner, in whose process our trainer is registered."""

import ray
from verl.trainer.main_ppo import TaskRunnerV1

# Ray refuses to subclass an actor class; this is the plain class that it wraps.
_TaskRunner = TaskRunnerV1.__ray_metadata__.modified_class


@ray.remote
class DAPOTaskRunner(_TaskRunner):  # type: ignore[valid-type, misc]
    """Imports `recipe.trainer`, which registers the trainer mode, then runs as verl does."""

    def run(self, config):
        """Train to the end; raises what verl raises."""
        import recipe.trainer  # noqa: F401

        return super().run(config)
