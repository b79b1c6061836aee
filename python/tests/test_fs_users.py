"""Libraries on top of fsspec work: pandas with Parquet, zarr, xarray, two workers of Dask on one
array."""

from __future__ import annotations

import importlib
import logging
from typing import Any

import pytest

from zerohop import Client, Keyspace

numpy = importlib.import_module("numpy")

pytestmark = pytest.mark.wide


@pytest.mark.filterwarnings("ignore")
def test_pandas_keeps_a_table_as_parquet(client: Client, keyspace: Keyspace) -> None:
    pandas = importlib.import_module("pandas")
    table = pandas.DataFrame({"n": range(50_000), "name": [f"name {n}" for n in range(50_000)]})
    url, options = f"zerohop://{keyspace.name}/tables/one.parquet", {"endpoint": client.endpoint}
    table.to_parquet(url, storage_options=options, engine="pyarrow")
    assert pandas.read_parquet(url, storage_options=options, engine="pyarrow").equals(table)
    part = pandas.read_parquet(url, storage_options=options, columns=["n"], filters=[("n", "<", 10)])
    assert list(part["n"]) == list(range(10)) and list(part.columns) == ["n"]
    table[:5].to_csv(f"zerohop://{keyspace.name}/tables/one.csv", storage_options=options, index=False)
    assert pandas.read_csv(f"zerohop://{keyspace.name}/tables/one.csv", storage_options=options).equals(table[:5])


@pytest.mark.filterwarnings("ignore")
def test_zarr_keeps_an_array(client: Client, keyspace: Keyspace) -> None:
    zarr = importlib.import_module("zarr")
    url, options = f"zerohop://{keyspace.name}/grid.zarr", {"endpoint": client.endpoint}
    given = numpy.arange(250_000, dtype="float64").reshape(500, 500)
    array = zarr.create_array(url, shape=given.shape, chunks=(100, 200), dtype="float64", storage_options=options)
    array[:] = given
    array.attrs["what"] = "a grid"
    again = zarr.open_array(url, mode="r+", storage_options=options)
    assert (again[:] == given).all() and again.attrs["what"] == "a grid"
    again[10:20, 150:260] = -1
    given[10:20, 150:260] = -1
    assert (zarr.open_array(url, mode="r", storage_options=options)[5:30] == given[5:30]).all()


@pytest.mark.filterwarnings("ignore")
def test_xarray_keeps_a_dataset(client: Client, keyspace: Keyspace) -> None:
    importlib.import_module("zarr")
    xarray: Any = importlib.import_module("xarray")
    url, options = f"zerohop://{keyspace.name}/weather.zarr", {"endpoint": client.endpoint}

    def weather(first_day: int, days: int) -> Any:
        # A distinct number for each place and day.
        values = numpy.arange(days * 40 * 50, dtype="float64").reshape(days, 40, 50) + first_day * 40 * 50
        places = {"latitude": numpy.linspace(-90, 90, 40), "longitude": numpy.linspace(0, 352.8, 50)}
        times = numpy.datetime64("2026-01-01", "ns") + (first_day + numpy.arange(days)) * numpy.timedelta64(86_400_000_000_000, "ns")
        temperature = (("time", *places), values, {"units": "K"})
        return xarray.Dataset({"temperature": temperature}, {"time": times, **places}, {"title": "weather"})

    weather(0, 10).chunk({"time": 5}).to_zarr(url, storage_options=options)
    weather(10, 5).to_zarr(url, append_dim="time", storage_options=options)
    with xarray.open_zarr(url, storage_options=options) as found:
        assert found.identical(weather(0, 15)) and found.temperature.attrs["units"] == "K"
        assert found.temperature.chunks is not None, "it is read where it is needed"
        assert float(found.temperature.sel(time="2026-01-12").mean()) == weather(11, 1).temperature.mean()
    # A part of it in place: one day.
    hot = weather(3, 1).drop_vars(["latitude", "longitude"]) + 100
    hot.to_zarr(url, region={"time": slice(3, 4)}, storage_options=options)
    with xarray.open_dataset(url, engine="zarr", storage_options=options) as found:
        assert (found.temperature[3] == weather(3, 1).temperature[0] + 100).all()
        assert found.drop_isel(time=3).equals(weather(0, 15).drop_isel(time=3))


@pytest.mark.filterwarnings("ignore")
def test_two_workers_of_dask_share_an_array(client: Client, keyspace: Keyspace) -> None:
    importlib.import_module("zarr")
    dask_array: Any = importlib.import_module("dask.array")
    distributed: Any = importlib.import_module("distributed")
    url, options = f"zerohop://{keyspace.name}/shared.zarr", {"endpoint": client.endpoint}
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=logging.CRITICAL
    )
    with cluster, distributed.Client(cluster) as workers:
        assert len(workers.scheduler_info()["workers"]) == 2
        given = dask_array.arange(1_000_000, chunks=100_000, dtype="int64")
        given.to_zarr(url, storage_options=options)
        found = dask_array.from_zarr(url, storage_options=options)
        assert int(found.sum().compute()) == 499_999_500_000
        (found + 1).to_zarr(url.replace("shared", "next"), storage_options=options)
    assert int(dask_array.from_zarr(url.replace("shared", "next"), storage_options=options)[-1].compute(scheduler="sync")) == 1_000_000
