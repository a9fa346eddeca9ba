package e2e

import (
	"testing"

	"flashsale.internal/test/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
