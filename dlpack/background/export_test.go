package background

// MaxRunning exports maxRunning to the tests.
const MaxRunning = maxRunning
