"""The scoreboard: methods run over texts under one protocol, judged by the same tests, with intervals and cost."""
