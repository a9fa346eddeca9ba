package cluster

import (
	"testing"

	"flashsale.internal/test/cluster/installation"
)

func TestMain(m *testing.M) { installation.Main(m) }
