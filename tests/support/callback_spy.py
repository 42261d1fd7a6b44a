"""A callback of Hydra that lists its calls."""

from hydra.experimental.callback import Callback


class Spy(Callback):
    """Writes down which jobs Hydra's callbacks were called for."""

    calls: list[tuple[str, str]] = []

    def on_job_start(self, config, **_):
        self.calls.append(("start", config.hydra.runtime.output_dir))

    def on_job_end(self, config, job_return, **_):
        self.calls.append((job_return.status.name, config.hydra.runtime.output_dir))
