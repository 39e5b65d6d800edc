//go:build race

package proof

// raceDetector slows every host several times over. The whole proof then says
// nothing more of the checks, so that only a part of it runs; the test command
// proves the whole without the detector.
const raceDetector = true
