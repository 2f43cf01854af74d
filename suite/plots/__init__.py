"""Drawing, for every page: geometry as plain numbers, templates that escape, pages that need no network."""
