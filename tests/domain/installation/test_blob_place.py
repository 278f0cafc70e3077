"""Where blobs are kept: what people write, and what is refused."""

import pytest

from perdure.domain.installation.blob_place import BlobPlace


@pytest.mark.parametrize(
    ("written", "scheme", "bucket", "prefix", "url"),
    [
        ("s3://bucket", "s3", "bucket", "", "s3://bucket"),
        ("s3://bucket/", "s3", "bucket", "", "s3://bucket"),
        (" s3://my.bucket-1//a/b/ ", "s3", "my.bucket-1", "a/b", "s3://my.bucket-1/a/b"),
        ("gs://bucket/team=red", "gs", "bucket", "team=red", "gs://bucket/team=red"),
        ("az://container/p", "az", "container", "p", "az://container/p"),
        ("file:///srv/my blobs", "file", "", "srv/my blobs", "file:///srv/my blobs"),
    ],
)
def test_places_are_read(written: str, scheme: str, bucket: str, prefix: str, url: str) -> None:
    place = BlobPlace.parse(written)
    assert (place.scheme, place.bucket, place.prefix, place.url) == (scheme, bucket, prefix, url)
    assert BlobPlace.parse(url) == place


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("", "s3://BUCKET/PREFIX"),
        ("bucket/prefix", "s3://BUCKET/PREFIX"),
        ("/srv/blobs", "file:///FOLDER"),
        ("ftp://host/x", "s3://BUCKET/PREFIX"),
        ("S3://bucket", "s3://BUCKET/PREFIX"),
        ("s3://", "where the bucket has"),
        ("s3:///prefix", "where the bucket has"),
        ("s3://my bucket/x", "where the bucket has"),
        ("s3://key:secret@bucket/x", "without credentials or options"),
        ("s3://bucket/x?region=eu", "without credentials or options"),
        ("s3://bucket/../other", "not '..'"),
        ("s3://bucket/a b", "not 'a b'"),
        ("file://host/mnt", "whole path"),
        ("file:///", "whole path"),
        ("file:///srv/../etc", "without `.` and `..`"),
    ],
)
def test_what_names_no_place_is_refused(written: str, words: str) -> None:
    with pytest.raises(ValueError) as refused:
        BlobPlace.parse(written)
    assert words in str(refused.value)
