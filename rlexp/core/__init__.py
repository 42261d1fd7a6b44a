"""The ground: types, masked reductions, random streams, blocks of replicas, errors, the registry of choices."""
