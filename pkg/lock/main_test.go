package lock_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain also runs the processes that tests pause and kill.
func TestMain(m *testing.M) {
	if name := os.Getenv(victimEnv); name != "" {
		os.Exit(victim(name))
	}
	goleak.VerifyTestMain(m)
}
