package httpserver

import (
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
)

func TestCheckText(t *testing.T) {
	for _, fine := range []string{"a", "转账一", " a "} {
		require.NoError(t, CheckText("reason", fine, 3), fine)
	}
	for _, bad := range []string{"", " \t", "abcd", "转账一七", "\xff"} {
		require.Equal(t, contract.CodeInvalidRequest, contract.CodeOf(CheckText("reason", bad, 3)), "%q", bad)
	}
}
