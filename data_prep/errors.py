"""The one error that data preparation raises for input or options a user can mend."""


class DataError(ValueError):
    """Bad input or options. The message names file, row and column as far as they are known, and a remedy."""

    def __init__(
        self, problem: str, *, file: object = None, row: int | None = None, column: str | None = None, remedy: str = ""
    ):
        where = [f"file {file}"] if file is not None else []
        where += [f"row {row}"] if row is not None else []
        where += [f"column {column!r}"] if column else []
        text = f"{', '.join(where)}: {problem}" if where else problem
        super().__init__(f"{text}. {remedy}" if remedy else text)
        self.problem, self.row, self.column, self.remedy = problem, row, column, remedy
