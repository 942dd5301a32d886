package background

// MaxRunning is for the tests.
const MaxRunning = maxRunning
