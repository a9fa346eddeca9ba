package restore

import (
	"testing"

	"flashsale.internal/test/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
