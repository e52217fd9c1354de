"""Whether a model brings Python code of its own, by its folder, by the Hub's files or by the local cache of those."""

import contextlib
import functools
import json
from dataclasses import dataclass
from pathlib import Path

FILES = ("config.json", "tokenizer_config.json")
_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Look:
    """`code`: the files, by path or address, that name code. `missing` or `unseen`: why nothing could be looked at."""

    code: tuple[str, ...] = ()
    missing: str = ""
    unseen: str = ""


def is_hub_name(name: str) -> bool:
    """Whether a model's name is no folder here and has the form of one on the Hub, `org/model`."""
    folder = Path(name).expanduser()
    return not (folder.exists() or folder.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1)


def look(name: str) -> Look:
    """Look at a folder, or at what the Hub has under this name now; where it is not reached, at the local cache."""
    if is_hub_name(name):
        return _look_at_hub(name)
    texts = {}
    for path in (Path(name).expanduser() / file for file in FILES):
        with contextlib.suppress(OSError, ValueError):  # missing, or a problem that other rules name
            texts[str(path)] = path.read_text()
    return Look(_with_code(texts))


@functools.cache  # problems and notes ask for the same, and a network that is not there takes its time
def _look_at_hub(name: str) -> Look:
    import httpx
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        return Look(_with_code(_from_hub(name)))
    except RepositoryNotFoundError:  # a gated one, too
        refused = Look(missing="is no folder here, and on the Hub it is not there or not open to you")
    except (OSError, httpx.HTTPError) as error:  # offline mode and what a server or proxy answers, too
        first = next(iter(str(error).splitlines()), "")
        refused = Look(unseen=f"the Hub was not reached ({type(error).__name__}: {first:.120})")
    except ValueError as error:  # no form of a Hub name
        refused = Look(missing=f"is no folder here, nor a name of the Hub ({error!s:.120})")
    cached = _from_cache(name)
    return Look(_with_code(cached)) if cached else refused


def _from_hub(name: str) -> dict[str, str]:
    """Text of the two files by address; raises what httpx and huggingface_hub raise. Nothing goes into the cache.

    A cache with a few files of a model would look like the whole model to the other rules.
    """
    from huggingface_hub import get_session, hf_hub_url
    from huggingface_hub.errors import EntryNotFoundError
    from huggingface_hub.utils import build_hf_headers, hf_raise_for_status, validate_repo_id

    validate_repo_id(name)
    texts = {}
    for url in (hf_hub_url(name, file) for file in FILES):
        answer = get_session().get(url, headers=build_hf_headers(), timeout=_TIMEOUT_S, follow_redirects=True)
        with contextlib.suppress(EntryNotFoundError):
            hf_raise_for_status(answer)
            texts[url] = answer.text
    return texts


def _from_cache(name: str) -> dict[str, str]:
    from huggingface_hub import try_to_load_from_cache

    texts = {}
    for file in FILES:
        with contextlib.suppress(OSError, ValueError):
            if isinstance(path := try_to_load_from_cache(name, file), str):
                texts[path] = Path(path).read_text()
    return texts


def _with_code(texts: dict[str, str]) -> tuple[str, ...]:
    found = []
    for where, text in texts.items():
        with contextlib.suppress(ValueError):  # no JSON: a problem that other rules name
            content = json.loads(text)
            if isinstance(content, dict) and "auto_map" in content:
                found.append(where)
    return tuple(found)
