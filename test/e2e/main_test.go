package e2e

import (
	"log/slog"
	"os"
	"testing"

	"flashsale.internal/test/e2e/rig"
)

func TestMain(m *testing.M) {
	code := m.Run()
	rig.RemoveBuilt(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	os.Exit(code)
}
