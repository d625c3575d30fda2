"""Groups of processes on spyre: each test starts ranks, which run one of these modules."""
