"""Operations: those the device has itself (:mod:`.eager`), and those that the CPU does for it (:mod:`.fallbacks`)."""
