"""S3 and compatible stores, by a client of boto3.

An object carries the token of the run that wrote it as metadata, and is put only if it has not changed since the fence
read it (`If-Match`, `If-None-Match`). An ETag is made from the body: two runs that write the very same bytes make one
ETag, and the fence does not detect a late run between them. So make the body of each run different, for example by a
field with its token.
"""

from __future__ import annotations

from typing import Any, Protocol

from ._fenced import Fenced, Guarded

_TOKEN = "rosterd-token"
_ATTEMPTS = 10
#: The condition failed; a concurrent write.
_LOST = (412, 409)


class Client(Protocol):
    """`boto3.client("s3")`, 1.36 or newer: older ones do not know IfMatch."""

    def head_object(self, *, Bucket: str, Key: str) -> Any: ...
    def put_object(self, **arguments: Any) -> Any: ...


class FencedObject:
    """One object that runs of an item write."""

    def __init__(self, client: Client, bucket: str, key: str) -> None:
        self._client = client
        self._place = {"Bucket": bucket, "Key": key}
        self._what = f"object {bucket}/{key}"

    def put(self, body: bytes, run: Guarded, **arguments: Any) -> None:
        """Raises Fenced if a run with a higher token has written the object. `arguments` go to `put_object` as well."""
        metadata = {**arguments.pop("Metadata", {}), _TOKEN: str(run.token)}
        for _ in range(_ATTEMPTS):
            condition = self._condition(run)
            try:
                self._client.put_object(**self._place, Body=body, Metadata=metadata, **condition, **arguments)
            except Exception as error:
                # Another writer was quicker, or has removed the object: its current state decides.
                if _status(error) in _LOST or (_status(error) == 404 and "IfMatch" in condition):
                    continue
                raise
            return
        raise RuntimeError(
            f"{self._what} changed {_ATTEMPTS} times while it was to be written: is it written without fences?"
        )

    def _condition(self, run: Guarded) -> dict[str, str]:
        """The condition that the object has not changed since this read."""
        try:
            head = self._client.head_object(**self._place)
        except Exception as error:
            if _status(error) == 404:
                return {"IfNoneMatch": "*"}
            raise
        seen = head["Metadata"].get(_TOKEN)
        if seen is not None and int(seen) > run.token:
            raise Fenced(self._what, run.token, int(seen))
        return {"IfMatch": head["ETag"]}


def _status(error: Exception) -> int | None:
    """The code of botocore's ClientError, without importing it."""
    response = getattr(error, "response", None)
    return response.get("ResponseMetadata", {}).get("HTTPStatusCode") if isinstance(response, dict) else None
