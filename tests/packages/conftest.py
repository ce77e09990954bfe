"""The packages' own tests run where the packages were copied to, in processes of their own."""

collect_ignore_glob = ["*/*"]
