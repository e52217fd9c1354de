"""The one error that data preparation raises for input or options a user can mend."""

Number = int | str  # a row number, or one with the line of a text file: `2 (line 3)`


class DataError(ValueError):
    """Bad input or options. The message names file, row and column as far as they are known, and a remedy."""

    def __init__(
        self,
        problem: str,
        *,
        file: object = None,
        row: Number | None = None,
        column: str | None = None,
        remedy: str = "",
    ):
        self.problem, self.file, self.row, self.column, self.remedy = problem, file, row, column, remedy
        where = [f"file {file}"] if file is not None else []
        where += [f"row {row}"] if row is not None else []
        where += [f"column {column!r}"] if column else []
        text = f"{', '.join(where)}: {problem}" if where else problem
        super().__init__(f"{text}. {remedy}" if remedy else text)

    def at(self, file: object, row: Number) -> "DataError":
        """Return the same error with the file and the row it was found in."""
        return DataError(self.problem, file=file, row=row, column=self.column, remedy=self.remedy)
