"""Files of a dataset repository on the Hugging Face Hub, at a revision that is named in full."""

from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from data_prep.errors import DataError


def fetch(repo: str, revision: str, patterns: Sequence[str]) -> tuple[list[Path], str]:
    """Download the files of a dataset that match `patterns`, in the order of the patterns.

    Returns:
        Their paths in the local cache, and the commit that `revision` (a branch, tag or commit) stands for.

    Raises:
        DataError: the Hub cannot be reached, or has no such repository, revision or file.
    """
    import httpx
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        info = HfApi().dataset_info(repo, revision=revision, timeout=30)
        names = [entry.rfilename for entry in info.siblings or []]
        wanted = [name for pattern in patterns for name in sorted(names) if fnmatch(name, pattern)]
        paths = [Path(hf_hub_download(repo, name, repo_type="dataset", revision=info.sha)) for name in wanted]
    except (OSError, httpx.HTTPError, HfHubHTTPError, RuntimeError, ValueError) as error:  # offline mode: an OSError
        remedy = (
            "Give --input PATH with a copy of its file (prepare_data.sh: TRAIN_INPUT, TEST_INPUT), or check the "
            "network, HF_ENDPOINT and --revision"
        )
        raise DataError(f"Hub dataset {repo} at {revision!r} cannot be read ({error!r:.200})", remedy=remedy) from error
    if not paths or info.sha is None:
        raise DataError(f"Hub dataset {repo} at {revision!r} has no file like {', '.join(patterns)}: {names}")
    return paths, info.sha
