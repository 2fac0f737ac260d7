"""ratings: what 90 examples of tests/programs/recommend.dt are: user.npy, items.npy, rating.npy."""
import numpy as np


def write_ratings(folder):
    """The same each time. Batches name users several times, some examples an item twice. Gives who the users are."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = np.random.default_rng(3)
    users, items = numbers.integers(0, 7, 90).astype(np.int32), numbers.integers(0, 2000, (90, 3))
    items[:, 2] = np.where(numbers.random(90) < 0.4, items[:, 0], items[:, 2])
    np.save(folder / "user.npy", users)
    np.save(folder / "items.npy", items)
    np.save(folder / "rating.npy", numbers.normal(size=90).astype(np.float32))
    return users
